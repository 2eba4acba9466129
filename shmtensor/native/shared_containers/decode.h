// Reading one element after another from a part.
#pragma once

#include "shared_containers/format.h"
#include "python.h"

namespace shmtensor::packed {

struct Bytes {
  const uint8_t* base;
  size_t nbytes;
  PyObject* owner;  // borrowed; null while packing: then arrays are copied out
};

struct Reader {
  const uint8_t* p;
  const uint8_t* end;
  const Bytes* part;
  bool readonly;
};

// A new reference, or null with an exception set. The reader is then after the element.
PyObject* read_value(Reader& r);
// Null; sets ValueError.
PyObject* corrupt(const Reader& r, const char* what);
bool read_more(Reader& r, uint64_t* n);  // a number of more than one byte

// How many; false with an exception set.
inline bool read_number(Reader& r, uint64_t* n) {
  if (r.p < r.end) {
    const uint8_t byte = load<uint8_t>(r.p);
    if (byte < 0x80) {
      ++r.p;
      *n = byte;
      return true;
    }
  }
  return read_more(r, n);
}

}  // namespace shmtensor::packed
