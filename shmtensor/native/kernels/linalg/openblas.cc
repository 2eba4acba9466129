// Finds and loads OpenBLAS; runs its products in tiles on the thread pool.
#include "kernels/linalg/openblas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <type_traits>

#include "math/function_table.h"
#include "simd/cpu_capability.h"
#include "threading/thread_pool.h"
#include "python.h"
#include "kernels/shape/transpose_block.h"

namespace shmtensor {
namespace {

// CBLAS's constants.
enum { RowMajor = 101, NoTrans = 111, Trans = 112 };

template <class T>
using RealGemm = void (*)(int, int, int, int, int, int, T, const T*, int, const T*, int, T, T*, int);
template <class T>
using RealGemv = void (*)(int, int, int, int, T, const T*, int, const T*, int, T, T*, int);
using ComplexGemm = void (*)(int, int, int, int, int, int, const void*, const void*, int, const void*, int, const void*,
                             void*, int);

struct Library {
  RealGemm<float> sgemm = nullptr;
  RealGemm<double> dgemm = nullptr;
  RealGemv<float> sgemv = nullptr;
  RealGemv<double> dgemv = nullptr;
  ComplexGemm cgemm = nullptr;
  ComplexGemm zgemm = nullptr;
  void (*set_num_threads)(int) = nullptr;
  char* (*corename)() = nullptr;
};

Library library;
void* handle = nullptr;  // of the open library
bool loaded = false;

// Sets an environment variable for its lifetime.
class TemporaryEnvironment {
 public:
  TemporaryEnvironment(const char* name, const char* value) : name_(name) {
    const char* old = getenv(name);
    was_set_ = old != nullptr;
    if (old) old_value_ = old;
    setenv(name, value, 1);
  }
  ~TemporaryEnvironment() {
    if (was_set_) {
      setenv(name_, old_value_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  TemporaryEnvironment(const TemporaryEnvironment&) = delete;
  TemporaryEnvironment& operator=(const TemporaryEnvironment&) = delete;

 private:
  const char* name_;
  std::string old_value_;
  bool was_set_;
};

// The path of the wheel's library, from Python's import system. The package itself is not imported: it would load the
// library before we can choose its kernels.
bool find_library(std::string* path) {
  PyObject* util = PyImport_ImportModule("importlib.util");
  PyObject* spec = util ? PyObject_CallMethod(util, "find_spec", "s", "scipy_openblas32") : nullptr;
  PyObject* locations = nullptr;
  if (spec && spec != Py_None) locations = PyObject_GetAttrString(spec, "submodule_search_locations");
  PyObject* location = locations && locations != Py_None ? PySequence_GetItem(locations, 0) : nullptr;
  const char* text = location ? PyUnicode_AsUTF8(location) : nullptr;
  if (text) *path = std::string(text) + "/lib/libscipy_openblas.so";
  Py_XDECREF(location);
  Py_XDECREF(locations);
  Py_XDECREF(spec);
  Py_XDECREF(util);
  if (text) return true;
  if (!PyErr_Occurred()) {
    raise("ImportError", "blas: the library is missing: scipy_openblas32, pip install scipy-openblas32");
  }
  return false;
}

void* load_symbol(const char* name) {
  void* address = dlsym(handle, name);
  if (!address) {
    raise("ImportError", "blas: the library lacks a function: %s, scipy-openblas32 >= 0.3.29 has it", name);
  }
  return address;
}

template <class F>
bool load_symbol(const char* name, F* out) {
  *out = reinterpret_cast<F>(load_symbol(name));
  return *out != nullptr;
}

bool load() {
  std::string path;
  if (!find_library(&path)) return false;
  {
    TemporaryEnvironment threads("OPENBLAS_NUM_THREADS", "1");
    if (isa_level() == Level::Avx512) {  // overrides an inherited value, which was set for NumPy's copy
      TemporaryEnvironment kernels("OPENBLAS_CORETYPE", "SkylakeX");
      handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    } else {
      handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (!handle) return raise("ImportError", "blas: the library does not load: %s", dlerror());
  Library l;
  if (!load_symbol("scipy_cblas_sgemm", &l.sgemm) || !load_symbol("scipy_cblas_dgemm", &l.dgemm) ||
      !load_symbol("scipy_cblas_sgemv", &l.sgemv) || !load_symbol("scipy_cblas_dgemv", &l.dgemv) ||
      !load_symbol("scipy_cblas_cgemm", &l.cgemm) || !load_symbol("scipy_cblas_zgemm", &l.zgemm) ||
      !load_symbol("scipy_openblas_set_num_threads", &l.set_num_threads) ||
      !load_symbol("scipy_openblas_get_corename", &l.corename)) {
    return false;
  }
  l.set_num_threads(1);  // the same file may have been loaded before
  library = l;
  loaded = true;
  return true;
}

int transpose_flag(bool transposed) { return transposed ? Trans : NoTrans; }

template <class T, class F>
void call_real_gemm(F f, const Gemm<T>& g) {
  f(RowMajor, transpose_flag(g.a_transposed), transpose_flag(g.b_transposed), static_cast<int>(g.m), static_cast<int>(g.n),
    static_cast<int>(g.k), T(1), g.a, static_cast<int>(g.lda), g.b, static_cast<int>(g.ldb), g.beta, g.c,
    static_cast<int>(g.ldc));
}

// A matrix-vector product by gemv: OpenBLAS's gemm would pack the matrix first, which takes 2 to 8 times as long.
template <class T>
bool try_gemv(RealGemv<T> f, const Gemm<T>& g) {
  int m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k);
  int lda = static_cast<int>(g.lda), ldb = static_cast<int>(g.ldb), ldc = static_cast<int>(g.ldc);
  if (n == 1) {
    int step = g.b_transposed ? 1 : ldb;
    f(RowMajor, transpose_flag(g.a_transposed), g.a_transposed ? k : m, g.a_transposed ? m : k, T(1), g.a, lda, g.b, step,
      g.beta, g.c, ldc);
    return true;
  }
  if (m == 1) {
    int step = g.a_transposed ? lda : 1;
    f(RowMajor, transpose_flag(!g.b_transposed), g.b_transposed ? n : k, g.b_transposed ? k : n, T(1), g.b, ldb, g.a, step,
      g.beta, g.c, 1);
    return true;
  }
  return false;
}

template <class T>
void call_complex_gemm(ComplexGemm f, const Gemm<T>& g) {
  const T one(1);
  f(RowMajor, transpose_flag(g.a_transposed), transpose_flag(g.b_transposed), static_cast<int>(g.m), static_cast<int>(g.n),
    static_cast<int>(g.k), &one, g.a, static_cast<int>(g.lda), g.b, static_cast<int>(g.ldb), &g.beta, g.c,
    static_cast<int>(g.ldc));
}

int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// The length of the pieces of a side of `size`: near `target`, and a multiple of `step`.
int64_t piece_size(int64_t size, int64_t target, int64_t step) {
  int64_t n = (size + target / 2) / target;
  if (n < 1) n = 1;
  int64_t p = (size + n - 1) / n;
  return (p + step - 1) / step * step;
}

}  // namespace

bool blas_ensure() { return loaded || load(); }
const char* blas_core() { return loaded ? library.corename() : ""; }
void* blas_function(const char* name) { return blas_ensure() ? load_symbol(name) : nullptr; }

namespace {

// Small products in registers: OpenBLAS packs first, which takes as long. False if the product is not small.
template <class T>
bool try_small_gemm(Gemm<T> g) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr int64_t kSize = sizeof(T), kVector = 16 / kSize;
  constexpr int64_t kCached = 24576 / kSize;  // elements of b, which is read once per four rows
  if (g.m < 2 || g.n % kVector || g.k * g.n > kCached || (g.beta != T(0) && g.beta != T(1))) return false;
  if (g.a_transposed && g.lda > 1024 && g.k > 256) return false;  // each step reads another page
  T transposed[kCached];
  if (g.b_transposed) {
    if (g.m < 4 || g.k % kVector) return false;  // transposing it would not pay
    for (int64_t j = 0; j < g.n; j += kVector) {
      for (int64_t k = 0; k < g.k; k += kVector)
        transpose_block(reinterpret_cast<const char*>(g.b + j * g.ldb + k), g.ldb * kSize,
                        reinterpret_cast<Bits*>(transposed + k * g.n + j), g.n);
    }
    g.b = transposed;
    g.ldb = g.n;
  }
  matrix_products<T>()(g.a, g.a_transposed ? 1 : g.lda, g.a_transposed ? g.lda : 1, g.b, g.ldb, g.c, g.ldc, g.m, g.n, g.k,
                       g.beta != T(0));
  return true;
}

}  // namespace

void blas_gemm(const Gemm<float>& g) {
  if (!try_gemv(library.sgemv, g) && !try_small_gemm(g)) call_real_gemm(library.sgemm, g);
}
void blas_gemm(const Gemm<double>& g) {
  if (!try_gemv(library.dgemv, g) && !try_small_gemm(g)) call_real_gemm(library.dgemm, g);
}
void blas_gemm(const Gemm<std::complex<float>>& g) { call_complex_gemm(library.cgemm, g); }
void blas_gemm(const Gemm<std::complex<double>>& g) { call_complex_gemm(library.zgemm, g); }

namespace {

// A weighted sum of rows: c = sum over k of v[k] * rows[k, :]. The rows are always divided into four runs, whose sums
// are added in order: slices of columns would each read all pages of the matrix.
template <class T>
void gemv_by_rows(const Gemm<T>& g) {
  constexpr int64_t kParts = 4;
  const bool left = g.n == 1;  // the matrix is a, transposed, and the vector is b; else vice versa
  const int64_t width = left ? g.m : g.n, rows_per_part = (g.k + kParts - 1) / kParts;
  auto* sums = static_cast<T*>(malloc(sizeof(T) * static_cast<size_t>(width * kParts)));
  if (!sums) return blas_gemm(g);
  slices(kParts, [&](int64_t i) {
    const int64_t start = i * rows_per_part;
    Gemm<T> tile = g;
    tile.k = start + rows_per_part < g.k ? rows_per_part : g.k - start;
    if (left) {
      tile.a += start * g.lda;
      tile.b += g.b_transposed ? start : start * g.ldb;
    } else {
      tile.b += start * g.ldb;
      tile.a += g.a_transposed ? start * g.lda : start;
    }
    tile.c = sums + i * width;
    tile.ldc = left ? 1 : width;
    tile.beta = T(0);
    blas_gemm(tile);
  });
  const int64_t step = left ? g.ldc : 1;
  for (int64_t c = 0; c < width; ++c) {
    T total = sums[c];
    for (int64_t i = 1; i < kParts; ++i) total += sums[i * width + c];
    g.c[c * step] = g.beta == T(0) ? total : total + g.beta * g.c[c * step];
  }
  free(sums);
}

// Outer products and matrix-vector products: they are memory-bound, so threads pay for smaller results than in gemm.
// False for other products and for small ones.
template <class T>
bool gemm_thin(const Gemm<T>& g) {
  constexpr int64_t kElements = 1 << 16;
  if (g.k == 1) {
    const int64_t am = g.a_transposed ? 1 : g.lda, bn = g.b_transposed ? g.ldb : 1;
    if (bn != 1 && g.n > 1) return false;
    const int64_t grain = g.n >= kElements ? 1 : (kElements + g.n - 1) / g.n;
    ranges(g.m, grain, [&](int64_t start, int64_t stop) {
      for (int64_t i = start; i < stop; ++i) {
        const T a = g.a[i * am];
        T* __restrict c = g.c + i * g.ldc;
        if (g.beta == T(0)) {
          for (int64_t j = 0; j < g.n; ++j) c[j] = a * g.b[j];
        } else {
          for (int64_t j = 0; j < g.n; ++j) c[j] = a * g.b[j] + g.beta * c[j];
        }
      }
    });
    return true;
  }
  const int64_t vector_size = g.n == 1 ? g.m : g.n;
  if ((g.n != 1 && g.m != 1) || vector_size * g.k < 2 * kElements || vector_size < 64) return false;
  const bool is_strided = g.n == 1 ? g.a_transposed : !g.b_transposed;
  if (is_strided && g.k >= 256) {
    gemv_by_rows(g);
    return true;
  }
  const int64_t grain = piece_size(vector_size, vector_size / 4, 16);
  ranges(vector_size, grain, [&](int64_t start, int64_t stop) {
    Gemm<T> tile = g;
    if (g.n == 1) {
      tile.m = stop - start;
      tile.a += g.a_transposed ? start : start * g.lda;
      tile.c += start * g.ldc;
    } else {
      tile.n = stop - start;
      tile.b += g.b_transposed ? start * g.ldb : start;
      tile.c += start;
    }
    blas_gemm(tile);
  });
  return true;
}

}  // namespace

// Each tile packs its own rows of A and columns of B: tiles must be so large that this cost is negligible, and there
// must be more tiles than threads, so that the other threads compensate for one that another process delays.
template <class T>
void gemm(const Gemm<T>& g) {
  constexpr double kMinParallelWork = 64.0 * 64 * 64 * 4;  // multiply-adds from which on threads pay
  double work = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  if ((g.k == 1 || g.m == 1 || g.n == 1) && gemm_thin(g)) return;
  if (work < kMinParallelWork) return blas_gemm(g);
  // About 16 tiles of large products, 2 of small ones.
  int64_t tiles = work >= 1024.0 * 1024 * 1024 ? 16 : work >= 512.0 * 512 * 512 ? 4 : 2;
  int64_t rows = g.m, columns = g.n;
  while (tiles > 1) {
    (rows >= columns ? rows : columns) /= 2;
    tiles /= 2;
  }
  const int64_t tm = piece_size(g.m, rows < 16 ? 16 : rows, 16), tn = piece_size(g.n, columns < 16 ? 16 : columns, 16);
  const int64_t nm = (g.m + tm - 1) / tm, nn = (g.n + tn - 1) / tn;
  slices(nm * nn, [&](int64_t i) {
    int64_t m0 = i / nn * tm, n0 = i % nn * tn;
    Gemm<T> tile = g;
    tile.m = min(tm, g.m - m0);
    tile.n = min(tn, g.n - n0);
    tile.a += g.a_transposed ? m0 : m0 * g.lda;
    tile.b += g.b_transposed ? n0 * g.ldb : n0;
    tile.c += m0 * g.ldc + n0;
    blas_gemm(tile);
  });
}

template void gemm(const Gemm<float>&);
template void gemm(const Gemm<double>&);
template void gemm(const Gemm<std::complex<float>>&);
template void gemm(const Gemm<std::complex<double>>&);

}  // namespace shmtensor
