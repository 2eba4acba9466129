// Finding and loading OpenBLAS, and its products cut into tiles.
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

// CBLAS's own numbers.
enum { RowMajor = 101, NoTrans = 111, Trans = 112 };

template <class T>
using RealGemm = void (*)(int, int, int, int, int, int, T, const T*, int, const T*, int, T, T*,
                          int);
template <class T>
using RealGemv = void (*)(int, int, int, int, T, const T*, int, const T*, int, T, T*, int);
using ComplexGemm = void (*)(int, int, int, int, int, int, const void*, const void*, int,
                             const void*, int, const void*, void*, int);

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

// An environment variable, set for a moment.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    const char* old = getenv(name);
    had_ = old != nullptr;
    if (old) old_ = old;
    setenv(name, value, 1);
  }
  ~Setting() {
    if (had_) {
      setenv(name_, old_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_;
};

// Path of the wheel's library, from Python's import system; the package itself is not imported (it
// would load the library before we can choose its kernels).
bool find(std::string* path) {
  PyObject* util = PyImport_ImportModule("importlib.util");
  PyObject* spec = util ? PyObject_CallMethod(util, "find_spec", "s", "scipy_openblas32") : nullptr;
  PyObject* places = nullptr;
  if (spec && spec != Py_None) places = PyObject_GetAttrString(spec, "submodule_search_locations");
  PyObject* place = places && places != Py_None ? PySequence_GetItem(places, 0) : nullptr;
  const char* text = place ? PyUnicode_AsUTF8(place) : nullptr;
  if (text) *path = std::string(text) + "/lib/libscipy_openblas.so";
  Py_XDECREF(place);
  Py_XDECREF(places);
  Py_XDECREF(spec);
  Py_XDECREF(util);
  if (text) return true;
  if (!PyErr_Occurred()) {
    raise("ImportError",
          "blas: the library is missing: scipy_openblas32, pip install scipy-openblas32");
  }
  return false;
}

void* symbol(const char* name) {
  void* found = dlsym(handle, name);
  if (!found) {
    raise("ImportError",
          "blas: the library lacks a function: %s, scipy-openblas32 >= 0.3.29 has it", name);
  }
  return found;
}

template <class F>
bool symbol(const char* name, F* out) {
  *out = reinterpret_cast<F>(symbol(name));
  return *out != nullptr;
}

bool load() {
  std::string path;
  if (!find(&path)) return false;
  {
    Setting threads("OPENBLAS_NUM_THREADS", "1");
    if (isa_level() ==
        Level::Avx512) {  // an inherited setting was meant for NumPy's copy, on some other machine
      Setting kernels("OPENBLAS_CORETYPE", "SkylakeX");
      handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    } else {
      handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (!handle) {
    raise("ImportError", "blas: the library does not load: %s", dlerror());
    return false;
  }
  Library l;
  if (!symbol("scipy_cblas_sgemm", &l.sgemm) ||
      !symbol("scipy_cblas_dgemm", &l.dgemm) ||
      !symbol("scipy_cblas_sgemv", &l.sgemv) ||
      !symbol("scipy_cblas_dgemv", &l.dgemv) ||
      !symbol("scipy_cblas_cgemm", &l.cgemm) ||
      !symbol("scipy_cblas_zgemm", &l.zgemm) ||
      !symbol("scipy_openblas_set_num_threads", &l.set_num_threads) ||
      !symbol("scipy_openblas_get_corename", &l.corename)) {
    return false;
  }
  l.set_num_threads(1);  // somebody else may have loaded the same file first
  library = l;
  loaded = true;
  return true;
}

int transposition(bool transposed) { return transposed ? Trans : NoTrans; }

template <class T, class F>
void real(F f, const Gemm<T>& g) {
  f(RowMajor, transposition(g.a_transposed), transposition(g.b_transposed), static_cast<int>(g.m),
    static_cast<int>(g.n), static_cast<int>(g.k), T(1), g.a, static_cast<int>(g.lda), g.b,
    static_cast<int>(g.ldb), g.beta, g.c, static_cast<int>(g.ldc));
}

// A product with a vector reads the matrix once: OpenBLAS's gemm would pack it first, at 2 to 8
// times the time.
template <class T>
bool vector_product(RealGemv<T> f, const Gemm<T>& g) {
  int m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k);
  int lda = static_cast<int>(g.lda), ldb = static_cast<int>(g.ldb), ldc = static_cast<int>(g.ldc);
  if (n == 1) {
    int step = g.b_transposed ? 1 : ldb;
    f(RowMajor, transposition(g.a_transposed), g.a_transposed ? k : m, g.a_transposed ? m : k, T(1),
      g.a, lda, g.b, step, g.beta, g.c, ldc);
    return true;
  }
  if (m == 1) {
    int step = g.a_transposed ? lda : 1;
    f(RowMajor, transposition(!g.b_transposed), g.b_transposed ? n : k, g.b_transposed ? k : n,
      T(1), g.b, ldb, g.a, step, g.beta, g.c, 1);
    return true;
  }
  return false;
}

template <class T>
void complex(ComplexGemm f, const Gemm<T>& g) {
  const T one(1);
  f(RowMajor, transposition(g.a_transposed), transposition(g.b_transposed), static_cast<int>(g.m),
    static_cast<int>(g.n), static_cast<int>(g.k), &one, g.a, static_cast<int>(g.lda), g.b,
    static_cast<int>(g.ldb), &g.beta, g.c, static_cast<int>(g.ldc));
}

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// How many pieces to cut a side of `size` into, each a multiple of `step` and near `target`.
int64_t piece(int64_t size, int64_t target, int64_t step) {
  int64_t n = (size + target / 2) / target;
  if (n < 1) n = 1;
  int64_t p = (size + n - 1) / n;
  return (p + step - 1) / step * step;
}

}  // namespace

bool blas_ensure() { return loaded || load(); }
const char* blas_core() { return loaded ? library.corename() : ""; }
void* blas_function(const char* name) { return blas_ensure() ? symbol(name) : nullptr; }

namespace {

// Small products from registers: OpenBLAS packs first, which takes as long. False: it is another one.
template <class T>
bool small_product(Gemm<T> g) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr int64_t kSize = sizeof(T), kVector = 16 / kSize;
  constexpr int64_t kCached = 24576 / kSize;  // elements of b, which is read again for each four rows
  if (g.m < 2 || g.n % kVector || g.k * g.n > kCached ||
      (g.beta != T(0) && g.beta != T(1)))
    return false;
  if (g.a_transposed && g.lda > 1024 && g.k > 256) return false;  // each step is another page
  T turned[kCached];
  if (g.b_transposed) {
    if (g.m < 4 || g.k % kVector) return false;  // turning it would not pay
    for (int64_t j = 0; j < g.n; j += kVector) {
      for (int64_t k = 0; k < g.k; k += kVector)
        turn(reinterpret_cast<const char*>(g.b + j * g.ldb + k), g.ldb * kSize,
             reinterpret_cast<Bits*>(turned + k * g.n + j), g.n);
    }
    g.b = turned;
    g.ldb = g.n;
  }
  matrix_products<T>()(g.a, g.a_transposed ? 1 : g.lda, g.a_transposed ? g.lda : 1, g.b, g.ldb, g.c,
                       g.ldc, g.m, g.n, g.k, g.beta != T(0));
  return true;
}

}  // namespace

void blas_gemm(const Gemm<float>& g) {
  if (!vector_product(library.sgemv, g) && !small_product(g)) real(library.sgemm, g);
}
void blas_gemm(const Gemm<double>& g) {
  if (!vector_product(library.dgemv, g) && !small_product(g)) real(library.dgemm, g);
}
void blas_gemm(const Gemm<std::complex<float>>& g) { complex(library.cgemm, g); }
void blas_gemm(const Gemm<std::complex<double>>& g) { complex(library.zgemm, g); }

namespace {

// The sum of rows, each times an element of a vector: c = sum over k of v[k] * rows[k, :]. Cut into
// runs of rows that lie together, always four, whose sums are added in their order: by columns every
// slice would walk through all pages of the matrix.
template <class T>
void weighted_rows(const Gemm<T>& g) {
  constexpr int64_t kParts = 4;
  const bool left = g.n == 1;  // the matrix is a, transposed, and the vector b; else the other way
  const int64_t width = left ? g.m : g.n, part = (g.k + kParts - 1) / kParts;
  auto* sums = static_cast<T*>(malloc(sizeof(T) * static_cast<size_t>(width * kParts)));
  if (!sums) return blas_gemm(g);
  slices(kParts, [&](int64_t i) {
    const int64_t start = i * part;
    Gemm<T> piece = g;
    piece.k = start + part < g.k ? part : g.k - start;
    if (left) {
      piece.a += start * g.lda;
      piece.b += g.b_transposed ? start : start * g.ldb;
    } else {
      piece.b += start * g.ldb;
      piece.a += g.a_transposed ? start * g.lda : start;
    }
    piece.c = sums + i * width;
    piece.ldc = left ? 1 : width;
    piece.beta = T(0);
    blas_gemm(piece);
  });
  const int64_t step = left ? g.ldc : 1;
  for (int64_t c = 0; c < width; ++c) {
    T total = sums[c];
    for (int64_t i = 1; i < kParts; ++i) total += sums[i * width + c];
    g.c[c * step] = g.beta == T(0) ? total : total + g.beta * g.c[c * step];
  }
  free(sums);
}

// A product of a column and a row, a product with a vector: memory is the limit, not arithmetic, and
// a quarter of the result is worth a thread much earlier. False: it is neither, or small.
template <class T>
bool thin(const Gemm<T>& g) {
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
  const int64_t longer = g.n == 1 ? g.m : g.n;
  if ((g.n != 1 && g.m != 1) || longer * g.k < 2 * kElements || longer < 64) return false;
  const bool lies_across = g.n == 1 ? g.a_transposed : !g.b_transposed;
  if (lies_across && g.k >= 256) {
    weighted_rows(g);
    return true;
  }
  const int64_t part = piece(longer, longer / 4, 16);
  ranges(longer, part, [&](int64_t start, int64_t stop) {
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

// Each tile packs its own rows of A and columns of B: tiles must be large enough for that to
// vanish, and more than the threads, so that one held up by a foreign process is made up for by the
// others.
template <class T>
void gemm(const Gemm<T>& g) {
  constexpr double kWorth = 64.0 * 64 * 64 * 4;  // multiply-adds that pay for waking a worker
  double work = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  if ((g.k == 1 || g.m == 1 || g.n == 1) && thin(g)) return;
  if (work < kWorth) return blas_gemm(g);
  // About 16 tiles of large products, 2 of small ones.
  int64_t tiles = work >= 1024.0 * 1024 * 1024 ? 16 : work >= 512.0 * 512 * 512 ? 4 : 2;
  int64_t rows = g.m, columns = g.n;
  while (tiles > 1) {
    (rows >= columns ? rows : columns) /= 2;
    tiles /= 2;
  }
  const int64_t tm = piece(g.m, rows < 16 ? 16 : rows, 16),
                tn = piece(g.n, columns < 16 ? 16 : columns, 16);
  const int64_t nm = (g.m + tm - 1) / tm, nn = (g.n + tn - 1) / tn;
  slices(nm * nn, [&](int64_t i) {
    int64_t m0 = i / nn * tm, n0 = i % nn * tn;
    Gemm<T> tile = g;
    tile.m = least(tm, g.m - m0);
    tile.n = least(tn, g.n - n0);
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
