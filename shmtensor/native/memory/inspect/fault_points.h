// Named points of the protocol at which a test kills (or stops) the process.
//
// SHMTENSOR_FAULT=<name>[:<nth>[:stop]] arms one point at import; arm_fault() does so later. A second specification,
// after a semicolon, is armed when the process continues after a stop. "?" counts how often each point is reached, in
// this process and in children forked from then on, and kills no process.
// An unarmed point costs one test of a global, on slow paths only, so points are always compiled in: tests run the
// shipped code.
//
// Note [Points]: `fault` is a macro because each use stores its name in a section of the object file, so the extension
// can list its points: tests/faults kills at each of them, and fails for a point that no test reaches. Not for templates
// or inline functions (their statics are in another kind of section).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace shmtensor {

extern bool fault_armed;
void fault_hit(const char* name);
bool arm_fault(const char* specification);  // nullptr or "": disarm; false: there is no such point
void arm_fault_from_environment();

size_t fault_points(const char* const** names);  // sorted, each once
uint64_t fault_count(size_t point);              // how often it was reached since "?" was armed

}  // namespace shmtensor

#define fault(name)                                                                            \
  do {                                                                                         \
    __attribute__((used, section("fault_points"))) static const char* point_of_fault = (name); \
    if (__builtin_expect(::shmtensor::fault_armed, 0)) ::shmtensor::fault_hit(point_of_fault); \
  } while (0)
