// Reading a channel from outside, by pread alone: Note [Survey] in memory/inspect/survey.cc.
#include <unistd.h>

#include "ipc/channel/cell.h"

namespace shmtensor {

namespace {

constexpr int kMaxSegments = 1 << 16;

struct Volumes {
  int fd[2];
  uint32_t slots;
  // n bytes at an offset in the domain; false: not there.
  bool read(uint64_t offset, void* out, size_t n) const {
    uint64_t half = uint64_t(slots / 2) * kSlotBytes;
    int v = offset >= half;
    uint64_t at = offset - (v ? half : 0);
    return at + n <= half && pread(fd[v], out, n, off_t(at)) == ssize_t(n);
  }
};

// survey_channel(volume0, volume1, slots, slot, offset) -> (maxsize, ready, writing, claimed,
// over), or None: no channel
PyObject* survey_channel(PyObject*, PyObject* args) {
  Volumes volumes;
  unsigned slot;
  unsigned long long offset;
  if (!PyArg_ParseTuple(args, "iiIIK:survey_channel", &volumes.fd[0], &volumes.fd[1], &volumes.slots, &slot, &offset))
    return nullptr;
  alignas(Root) char root_bytes[sizeof(Root)];
  const Root* root = reinterpret_cast<const Root*>(root_bytes);
  if (slot >= volumes.slots || offset >= kSlotBytes ||
      !volumes.read(uint64_t(slot) * kSlotBytes + offset, root_bytes, sizeof(Root)) || root->magic != kChannelMagic)
    Py_RETURN_NONE;
  constexpr size_t kHead = offsetof(Segment, cells);
  alignas(Segment) char bytes[kHead];
  const Segment* segment = reinterpret_cast<const Segment*>(bytes);
  uint64_t link = root->head.load(std::memory_order_relaxed);
  uint64_t count[16] = {}, before = 0;
  for (int i = 0; link && i < kMaxSegments; ++i) {
    uint64_t at = (link & ((1ull << 34) - 1)) * 64;
    // A segment that was freed and reused meanwhile has another link.
    if (!volumes.read(at, bytes, kHead) || segment->link != link) break;
    if (i == 0) before = (segment->number - 1) * kCells;
    for (const auto& word : segment->words) ++count[state_of(word.load(std::memory_order_relaxed))];
    link = segment->next.load(std::memory_order_relaxed);
  }
  using ULL = unsigned long long;
  return Py_BuildValue("(KKKKK)", ULL(root->maxsize), ULL(count[READY]), ULL(count[WRITING]),
                       ULL(count[CLAIMED] + count[DONE]), ULL(before + count[FINISHED] + count[TOMB]));
}

PyMethodDef methods[] = {
    {"survey_channel", survey_channel, METH_VARARGS,
     "survey_channel(volume 0, volume 1, slots, slot, offset) -> (maxsize, ready, being written,\n"
     "being read, over so far) of the channel whose root lies there, or None: there is none."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_survey(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace shmtensor
