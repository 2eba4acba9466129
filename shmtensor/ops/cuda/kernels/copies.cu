// Copies of bytes, whatever the dtype: a row that is repeated, and many arrays into one block.

constexpr int kMost = 64;       // arrays of one launch
constexpr int kThreads = 256;   // of a block
constexpr int kEach = 4;        // packs of a thread, all loaded before the first is stored
typedef pack_t<16 / sizeof(scalar_t)> pack16;
constexpr index_t kBytes = static_cast<index_t>(kThreads) * kEach * sizeof(pack16);  // of a block

struct __align__(8) unit8 {
  uint32 at[2];
};

// Writes `row` to each row of a matrix. columns: units of a row; n: units of the matrix.
template <class Unit>
__device__ __forceinline__ void fill(Unit* __restrict__ out, const Unit* __restrict__ row, index_t columns, index_t n) {
  const index_t first = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const index_t step = static_cast<index_t>(gridDim.x) * blockDim.x;
  if (n <= 0x7fffffff) {  // a division of 32 bits is several times faster
    const uint32 width = static_cast<uint32>(columns);
    for (index_t i = first; i < n; i += step) out[i] = row[static_cast<uint32>(i) % width];
  } else {
    for (index_t i = first; i < n; i += step) out[i] = row[i % columns];
  }
}
extern "C" __global__ void fill_rows_2(unsigned short* out, const unsigned short* row, index_t columns, index_t n) {
  fill(out, row, columns, n);
}
extern "C" __global__ void fill_rows_4(uint32* out, const uint32* row, index_t columns, index_t n) {
  fill(out, row, columns, n);
}
extern "C" __global__ void fill_rows_8(unit8* out, const unit8* row, index_t columns, index_t n) {
  fill(out, row, columns, n);
}
extern "C" __global__ void fill_rows_16(pack16* out, const pack16* row, index_t columns, index_t n) {
  fill(out, row, columns, n);
}

// Up to kMost arrays of bytes, and where each begins in a block of memory. An array with address 0 is left out. From its end
// to `room` bytes after its start the block gets zeros. first_block: of those that copy an array, and at its end the
// number of all.
struct Parts {
  uint64 address[kMost];
  index_t start[kMost];
  index_t size[kMost];
  index_t room[kMost];
  int first_block[kMost + 1];
  int n;
};

extern "C" __global__ void gather(unsigned char* __restrict__ out, const Parts parts) {
  int low = 0, high = parts.n - 1;  // the last one whose first block is not after this
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (parts.first_block[middle] <= static_cast<int>(blockIdx.x))
      low = middle;
    else
      high = middle - 1;
  }
  const unsigned char* from = reinterpret_cast<const unsigned char*>(parts.address[low]);
  if (!from) return;
  unsigned char* to = out + parts.start[low];
  const index_t size = parts.size[low], room = parts.room[low];
  const index_t begin = (static_cast<int>(blockIdx.x) - parts.first_block[low]) * kBytes, last = begin + kBytes;
  const index_t end = last < size ? last : size;
  index_t i = begin;
  if (i < end && reinterpret_cast<uint64>(from) % sizeof(pack16) == 0 &&
      reinterpret_cast<uint64>(to) % sizeof(pack16) == 0) {
    const pack16* packs = reinterpret_cast<const pack16*>(from + begin);
    pack16* results = reinterpret_cast<pack16*>(to + begin);
    const int n = static_cast<int>((end - begin) / static_cast<index_t>(sizeof(pack16)));
    pack16 kept[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      if (const int at = k * kThreads + static_cast<int>(threadIdx.x); at < n) kept[k] = packs[at];
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      if (const int at = k * kThreads + static_cast<int>(threadIdx.x); at < n) results[at] = kept[k];
    i += n * static_cast<index_t>(sizeof(pack16));
  }
  for (i += threadIdx.x; i < end; i += kThreads) to[i] = from[i];
  const index_t stop = last < room ? last : room;
  for (i = (begin > size ? begin : size) + threadIdx.x; i < stop; i += kThreads) to[i] = 0;
}
