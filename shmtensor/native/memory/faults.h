// Named points of the protocol at which a test kills (or stops) the process.
//
// SHMTENSOR_FAULT=<name>[:<nth>[:stop]] arms one point at import; arm_fault() does so later.
// Unarmed, a point costs one test of a global, on slow paths only, so the points are always
// compiled in: what is tested is what is shipped.
#pragma once

namespace shmtensor {

extern bool fault_armed;
void fault_hit(const char* name);
void arm_fault(const char* specification);  // nullptr or "": disarm
void arm_fault_from_environment();

inline void fault(const char* name) {
  if (__builtin_expect(fault_armed, 0)) fault_hit(name);
}

}  // namespace shmtensor
