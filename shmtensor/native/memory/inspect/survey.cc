// Reading a domain from outside: its processes, their memory, and the messages in flight.
//
// Note [Survey]: the reader is not a member: it takes no row, lock or entry, and writes nothing. It maps the control file
// read-only, and reads possible holes of that sparse file by pread, because touching a hole through a mapping would
// allocate it. The domain changes meanwhile, so each figure is valid at its own moment only, and each number that is used
// as an index is compared with its bound first.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

#include "memory/ledger/block.h"
#include "memory/domain/files.h"
#include "memory/ledger/ledger.h"
#include "memory/domain/liveness.h"

namespace shmtensor {

namespace {

constexpr size_t kOldest = 20;  // the oldest messages of other transports are listed

struct Figures {  // of a row
  uint64_t slots = 0, committed = 0, held = 0, messages = 0, message_bytes = 0, oldest_ms = 0, sent = 0;
  std::map<uint32_t, uint64_t> held_by_owner;  // key: the row that owns the blocks; kNobody: orphans
};
struct Traffic {  // messages in flight to one channel
  uint64_t messages = 0, nbytes = 0;
};
using BlockKey = std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>;  // slot, inc, index, gen
struct ForeignMessage {
  uint64_t age_ms, nbytes;
  uint32_t row;
};

struct Survey {
  Domain* d = nullptr;
  int fd;
  size_t size = 0;
  Figures rows[kRows];
  std::map<BlockKey, Traffic> channels;
  std::vector<ForeignMessage> foreign;
  uint64_t used = 0, orphans = 0, foreign_messages = 0, foreign_bytes = 0;

  explicit Survey(int control) : fd(control) {}
  ~Survey() {
    if (d && d->control_base) munmap(d->control_base, size);
    delete d;
  }
  Survey(const Survey&) = delete;

  const char* open();
  void read_slots();
  void read_messages(uint32_t r);
  void read_message(uint32_t r, uint32_t i, uint64_t now);
  bool next_entries(uint32_t r, uint32_t n, uint32_t* i, uint32_t* end) const;
  bool is_locked(int row) const;
};

const char* Survey::open() {
  Header h;
  struct stat st;
  if (pread(fd, &h, sizeof h, 0) != ssize_t(sizeof h) || fstat(fd, &st) != 0 || memcmp(h.magic, kMagic, sizeof kMagic) != 0)
    return "it is not the control file of a domain";
  if (h.version != kLayoutVersion || h.rows != kRows || h.blocks != kBlocks || h.slots > kMaxSlots || h.slots < 2 ||
      size_t(st.st_size) != Areas(h.slots).size)
    return "it has another layout version";
  d = new (std::nothrow) Domain();
  if (!d) return "no memory";
  Areas areas(h.slots);
  void* base = mmap(nullptr, areas.size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return "it cannot be mapped (a limit on address space, ulimit -v?)";
  size = areas.size;
  d->slots = h.slots;
  d->control_base = static_cast<char*>(base);
  d->header = reinterpret_cast<Header*>(d->control_base);
  d->rows = reinterpret_cast<Row*>(d->control_base + areas.rows);
  d->slot = reinterpret_cast<Slot*>(d->control_base + areas.slots);
  d->words = reinterpret_cast<Word*>(d->control_base + areas.words);
  d->in_flight = reinterpret_cast<InFlight*>(d->control_base + areas.in_flight);
  return nullptr;
}

// Tests the lock (GETLK) without taking it.
bool Survey::is_locked(int row) const {
  if (by_process(*d)) {  // a process of another pid namespace counts as alive
    uint64_t holder = d->rows[row].holder.load(acquire);
    return holder && (d->header->pidns != own_pid_namespace() || liveness_of_name(*d, holder) != Liveness::Dead);
  }
  struct flock lock;
  memset(&lock, 0, sizeof lock);
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = row;
  lock.l_len = 1;
  return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void Survey::read_slots() {
  std::vector<std::pair<uint32_t, uint32_t>> heads;  // slot, row
  for (int v = 0; v < 2; ++v) {
    uint32_t first = v ? d->slots / 2 : 0;
    uint32_t n = std::min(d->header->slot_high[v].load(acquire), d->slots / 2);
    for (uint32_t s = first; s < first + n; ++s) {
      SlotWord w = SlotWord::of(d->slot[s].word.load(acquire));
      if (w.state == kSlotFree) continue;
      ++used;
      heads.emplace_back(s, w.owner);
      if (w.owner == kNobody) orphans += w.state == kSlotLive || w.state == kSlotDying;
      if (w.owner >= kRows) continue;
      ++rows[w.owner].slots;
      if (w.state == kSlotLive) rows[w.owner].committed += d->slot[s].committed.load(relaxed);
    }
  }
  Areas areas(d->slots);
  size_t stride = (size_t(d->slots) * 4 + 4095) & ~size_t(4095);
  std::vector<uint32_t> nheld(d->slots);
  for (uint32_t r = 0; r < std::min(d->row_high(), kRows); ++r) {
    if (pread(fd, nheld.data(), d->slots * 4, off_t(areas.nheld + r * stride)) != ssize_t(d->slots * 4)) continue;
    for (auto [s, owner] : heads) {
      if (!nheld[s]) continue;
      rows[r].held += nheld[s];
      rows[r].held_by_owner[owner] += nheld[s];
    }
  }
}

// The next entries from *i on, up to *end, that are not in a hole of the file; false: there are none.
bool Survey::next_entries(uint32_t r, uint32_t n, uint32_t* i, uint32_t* end) const {
  off_t base = off_t(Areas(d->slots).in_flight + size_t(r) * kInFlight * sizeof(InFlight));
  off_t last = base + off_t(n) * off_t(sizeof(InFlight)), from = base + off_t(*i) * off_t(sizeof(InFlight));
  off_t data = lseek(fd, from, SEEK_DATA), hole = data < 0 ? last : lseek(fd, data, SEEK_HOLE);
  if (data < 0 && errno != ENXIO) data = from;  // this kernel does not tell holes
  if (data < 0 || data >= last) return false;
  if (hole < 0 || hole > last) hole = last;
  *i = uint32_t((data - base) / off_t(sizeof(InFlight)));
  *end = uint32_t((hole - base) / off_t(sizeof(InFlight)));
  return *i < *end;
}

void Survey::read_message(uint32_t r, uint32_t i, uint64_t now) {
  InFlight& entry = d->entry(r, i);
  uint64_t word;
  InFlightFields f;
  rows[r].sent += (entry.word.load(relaxed) + 1) >> 1;  // every use of it raises the number once
  if (!read_entry(entry, &word, &f)) return;
  bool has_channel = f.via_slot != kNoSlot;
  if (has_channel && (f.via_slot >= d->slots || f.via_index >= kBlocks || is_void(*d, f))) return;
  uint64_t age = now > f.time_ms ? now - f.time_ms : 0;
  Figures& row = rows[r];
  ++row.messages;
  row.message_bytes += f.nbytes;
  row.oldest_ms = std::max(row.oldest_ms, age);
  if (has_channel) {
    Traffic& traffic = channels[BlockKey(f.via_slot, f.via_inc, f.via_index, f.via_gen)];
    ++traffic.messages;
    traffic.nbytes += f.nbytes;
    return;
  }
  ++foreign_messages;
  foreign_bytes += f.nbytes;
  foreign.push_back({age, f.nbytes, r});
  auto older = [](const ForeignMessage& a, const ForeignMessage& b) { return a.age_ms > b.age_ms; };
  std::push_heap(foreign.begin(), foreign.end(), older);
  if (foreign.size() > kOldest) {
    std::pop_heap(foreign.begin(), foreign.end(), older);
    foreign.pop_back();
  }
}

void Survey::read_messages(uint32_t r) {
  uint64_t now = now_ms();
  uint32_t n = std::min(d->rows[r].in_flight_high.load(acquire), kInFlight);
  for (uint32_t i = 0, end = 0; i < n && next_entries(r, n, &i, &end); i = end)
    for (; i < end; ++i) read_message(r, i, now);
}

using ULL = unsigned long long;

PyObject* owners_of(const Figures& row) {
  PyObject* list = PyList_New(0);
  for (auto [owner, blocks] : row.held_by_owner) {
    if (!list) break;
    PyObject* item = Py_BuildValue("iK", owner < kRows ? int(owner) : -1, ULL(blocks));
    append(&list, item);
  }
  return list;
}

PyObject* rows_of(Survey& s) {
  PyObject* list = PyList_New(0);
  for (uint32_t r = 0; list && r < std::min(s.d->row_high(), kRows); ++r) {
    Row& row = s.d->rows[r];
    uint64_t word = row.state.load(acquire);
    RowState state = state_of_row(word);
    if (state == kRowFree) continue;
    char role[65] = "";
    memcpy(role, row.role, 64);
    static const char* const names[] = {"free", "born", "live", "zombie"};
    s.read_messages(r);
    bool alive = state != kRowZombie && s.is_locked(int(r));
    const Figures& f = s.rows[r];
    PyObject* text = PyUnicode_DecodeUTF8(role, Py_ssize_t(strlen(role)), "replace");
    PyObject* item = Py_BuildValue("{sI sI ss sO sI sK sN sK sK sK sN sK sK sd sK}", "row", r, "incarnation",
                                   inc_of_row(word), "state", names[state & 3], "alive", alive ? Py_True : Py_False, "pid",
                                   row.pid.load(acquire), "pid_namespace", ULL(row.pidns.load(relaxed)), "role", text,
                                   "slots", ULL(f.slots), "committed_bytes", ULL(f.committed), "held_blocks", ULL(f.held),
                                   "held_of", owners_of(f), "unread_messages", ULL(f.messages), "unread_bytes",
                                   ULL(f.message_bytes), "oldest_unread", double(f.oldest_ms) * 1e-3, "sent", ULL(f.sent));
    append(&list, item);
  }
  return list;
}

// The channels of messages or segments in flight, and the offsets of their roots.
PyObject* channels_of(Survey& s) {
  PyObject* list = PyList_New(0);
  for (auto& [key, traffic] : s.channels) {
    uint32_t slot = std::get<0>(key), index = std::get<2>(key);
    uint32_t shift = s.d->slot[slot].shift.load(relaxed);
    uint64_t offset = shift < 32 ? uint64_t(index) << shift : 0;
    if (!list || offset >= kSlotBytes) continue;
    PyObject* item = Py_BuildValue("{sI sK sK sK}", "slot", slot, "offset", ULL(offset), "messages", ULL(traffic.messages),
                                   "bytes", ULL(traffic.nbytes));
    append(&list, item);
  }
  return list;
}

PyObject* foreign_of(Survey& s) {
  std::sort(s.foreign.begin(), s.foreign.end(),
            [](const ForeignMessage& a, const ForeignMessage& b) { return a.age_ms > b.age_ms; });
  PyObject* list = PyList_New(0);
  for (const ForeignMessage& message : s.foreign) {
    if (!list) break;
    PyObject* item =
        Py_BuildValue("{sI sK sd}", "row", message.row, "bytes", ULL(message.nbytes), "age", double(message.age_ms) * 1e-3);
    append(&list, item);
  }
  return list;
}

PyObject* py_survey(PyObject*, PyObject* descriptor) {
  int fd = PyObject_AsFileDescriptor(descriptor);
  if (fd < 0) return nullptr;
  try {
    Survey s(fd);
    if (const char* error = s.open())
      return raise("DomainError", "survey: cannot read the domain: %s: descriptor %d", error, fd);
    s.read_slots();
    PyObject* rows = rows_of(s);
    PyObject* channels = rows ? channels_of(s) : nullptr;
    PyObject* foreign = channels ? foreign_of(s) : nullptr;
    if (!foreign) {
      Py_XDECREF(rows);
      Py_XDECREF(channels);
      return nullptr;
    }
    return Py_BuildValue("{sN sI sK sK sI sK sN sN sN sK sK}", "id",
                         PyBytes_FromStringAndSize(reinterpret_cast<const char*>(s.d->header->id), 16), "slots", s.d->slots,
                         "slots_used", ULL(s.used), "slots_orphaned", ULL(s.orphans), "refused_commits",
                         s.d->header->short_volume.load(relaxed), "slot_bytes", ULL(kSlotBytes), "rows", rows, "channels",
                         channels, "oldest_foreign", foreign, "foreign_messages", ULL(s.foreign_messages), "foreign_bytes",
                         ULL(s.foreign_bytes));
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
}

}  // namespace

PyMethodDef survey_functions[] = {{"survey", py_survey, METH_O,
                                   "survey(descriptor of a control file) -> figures of its domain, without joining it.\n"
                                   "Raises: DomainError."},
                                  {nullptr, nullptr, 0, nullptr}};

}  // namespace shmtensor
