// Chooses the functions of function_table.h for this CPU's instruction-set level.
#include "math/function_table.h"

#include "simd/cpu_capability.h"

namespace shmtensor {

#define LEVEL(name)                                                           \
  namespace name {                                                            \
  [[gnu::weak]] const Functions<float>& functions_of(float);                  \
  [[gnu::weak]] const Functions<double>& functions_of(double);                \
  [[gnu::weak]] const IntegerFunctions<int8_t>& functions_of(int8_t);         \
  [[gnu::weak]] const IntegerFunctions<uint8_t>& functions_of(uint8_t);       \
  [[gnu::weak]] const IntegerFunctions<int16_t>& functions_of(int16_t);       \
  [[gnu::weak]] const IntegerFunctions<int32_t>& functions_of(int32_t);       \
  [[gnu::weak]] const IntegerFunctions<int64_t>& functions_of(int64_t);       \
  [[gnu::weak]] const LogicalFunctions<float>& logical_functions_of(float);   \
  [[gnu::weak]] const LogicalFunctions<double>& logical_functions_of(double); \
  [[gnu::weak]] MatrixProduct<float> product_of(float);                       \
  [[gnu::weak]] MatrixProduct<double> product_of(double);                     \
  [[gnu::weak]] MatrixProduct<uint8_t> product_of(uint8_t);                   \
  [[gnu::weak]] MatrixProduct<uint16_t> product_of(uint16_t);                 \
  [[gnu::weak]] MatrixProduct<uint32_t> product_of(uint32_t);                 \
  [[gnu::weak]] MatrixProduct<uint64_t> product_of(uint64_t);                 \
  }
LEVEL(generic)
LEVEL(avx2)
LEVEL(avx512)
#undef LEVEL

namespace {

template <class T>
const auto& functions_at_level() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::functions_of(T());
    case Level::Avx2: return avx2::functions_of(T());
    default: return generic::functions_of(T());
  }
}

}  // namespace

template <class T>
const Functions<T>& functions() {
  return functions_at_level<T>();
}
template const Functions<float>& functions<float>();
template const Functions<double>& functions<double>();

template <class T>
const IntegerFunctions<T>& integer_functions() {
  return functions_at_level<T>();
}
template const IntegerFunctions<int8_t>& integer_functions<int8_t>();
template const IntegerFunctions<uint8_t>& integer_functions<uint8_t>();
template const IntegerFunctions<int16_t>& integer_functions<int16_t>();
template const IntegerFunctions<int32_t>& integer_functions<int32_t>();
template const IntegerFunctions<int64_t>& integer_functions<int64_t>();

template <class T>
const LogicalFunctions<T>& logical_functions() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::logical_functions_of(T());
    case Level::Avx2: return avx2::logical_functions_of(T());
    default: return generic::logical_functions_of(T());
  }
}
template const LogicalFunctions<float>& logical_functions<float>();
template const LogicalFunctions<double>& logical_functions<double>();

template <class T>
MatrixProduct<T> matrix_products() {
  switch (isa_level()) {
    case Level::Avx512: return avx512::product_of(T());
    case Level::Avx2: return avx2::product_of(T());
    default: return generic::product_of(T());
  }
}
template MatrixProduct<float> matrix_products<float>();
template MatrixProduct<double> matrix_products<double>();
template MatrixProduct<uint8_t> matrix_products<uint8_t>();
template MatrixProduct<uint16_t> matrix_products<uint16_t>();
template MatrixProduct<uint32_t> matrix_products<uint32_t>();
template MatrixProduct<uint64_t> matrix_products<uint64_t>();

}  // namespace shmtensor
