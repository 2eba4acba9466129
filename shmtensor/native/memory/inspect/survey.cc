// Looking at a domain from outside: who is in it, what each one has, which messages are under way.
//
// Note [Survey]: the looker is no member: it takes no row, no lock and no pin, and writes nothing.
// Its mapping of the control file is read-only; what may be a hole of that sparse file is read by
// pread, because touching a hole through a mapping would allocate it. Everything changes meanwhile,
// so figures are taken one by one, each of them valid at its own moment, and every number that is
// used as an index is compared with its bound first.
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

constexpr size_t kOldest = 20;  // pins of foreign roads that are named one by one

struct Figures {  // of a row
  uint64_t slots = 0, committed = 0, held = 0, pins = 0, pin_bytes = 0, oldest_ms = 0, sent = 0;
  std::map<uint32_t, uint64_t> held_of;  // by the row that the blocks are of; kNobody: orphans
};
struct Road {  // what is under way to one channel
  uint64_t pins = 0, nbytes = 0;
};
using Place = std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>;  // slot, inc, index, gen
struct Lost {
  uint64_t age_ms, nbytes;
  uint32_t row;
};

struct Survey {
  Domain* d = nullptr;
  int fd;
  size_t size = 0;
  Figures rows[kRows];
  std::map<Place, Road> roads;
  std::vector<Lost> foreign;
  uint64_t used = 0, orphans = 0, foreign_pins = 0, foreign_bytes = 0;

  explicit Survey(int control) : fd(control) {}
  ~Survey() {
    if (d && d->control_base) munmap(d->control_base, size);
    delete d;
  }
  Survey(const Survey&) = delete;

  const char* open();
  void look_at_slots();
  void look_at_pins(uint32_t r);
  void look_at_pin(uint32_t r, uint32_t i, uint64_t now);
  bool next_pins(uint32_t r, uint32_t n, uint32_t* i, uint32_t* end) const;
  bool is_locked(int row) const;
};

const char* Survey::open() {
  Header h;
  struct stat st;
  if (pread(fd, &h, sizeof h, 0) != ssize_t(sizeof h) || fstat(fd, &st) != 0 ||
      memcmp(h.magic, kMagic, sizeof kMagic) != 0)
    return "it is no control file of a domain";
  if (h.version != kLayoutVersion || h.rows != kRows || h.blocks != kBlocks ||
      h.slots > kMostSlots || h.slots < 2 || size_t(st.st_size) != Areas(h.slots).size)
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
  d->pins = reinterpret_cast<Pin*>(d->control_base + areas.pins);
  return nullptr;
}

// Only looks (GETLK): the lock stays whose it is.
bool Survey::is_locked(int row) const {
  if (by_process(*d)) {  // of another pid namespace nothing is known
    uint64_t holder = d->rows[row].holder.load(acquire);
    return holder &&
           (d->header->pidns != own_pid_namespace() || life_of_name(holder) != Life::Dead);
  }
  struct flock lock;
  memset(&lock, 0, sizeof lock);
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = row;
  lock.l_len = 1;
  return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void Survey::look_at_slots() {
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
    if (pread(fd, nheld.data(), d->slots * 4, off_t(areas.nheld + r * stride)) !=
        ssize_t(d->slots * 4))
      continue;
    for (auto [s, owner] : heads) {
      if (!nheld[s]) continue;
      rows[r].held += nheld[s];
      rows[r].held_of[owner] += nheld[s];
    }
  }
}

// The next pins from *i on, up to *end, that are no hole of the file; false: there are none.
bool Survey::next_pins(uint32_t r, uint32_t n, uint32_t* i, uint32_t* end) const {
  off_t base = off_t(Areas(d->slots).pins + size_t(r) * kPins * sizeof(Pin));
  off_t last = base + off_t(n) * off_t(sizeof(Pin)), from = base + off_t(*i) * off_t(sizeof(Pin));
  off_t data = lseek(fd, from, SEEK_DATA), hole = data < 0 ? last : lseek(fd, data, SEEK_HOLE);
  if (data < 0 && errno != ENXIO) data = from;  // this kernel does not tell holes
  if (data < 0 || data >= last) return false;
  if (hole < 0 || hole > last) hole = last;
  *i = uint32_t((data - base) / off_t(sizeof(Pin)));
  *end = uint32_t((hole - base) / off_t(sizeof(Pin)));
  return *i < *end;
}

void Survey::look_at_pin(uint32_t r, uint32_t i, uint64_t now) {
  Pin& pin = d->pin(r, i);
  uint64_t word;
  PinFields f;
  rows[r].sent += (pin.word.load(relaxed) + 1) >> 1;  // every use of it raises the number once
  if (!read_pin(pin, &word, &f)) return;
  bool known = f.via_slot != kNoSlot;
  if (known && (f.via_slot >= d->slots || f.via_index >= kBlocks || is_void(*d, f))) return;
  uint64_t age = now > f.time_ms ? now - f.time_ms : 0;
  Figures& row = rows[r];
  ++row.pins;
  row.pin_bytes += f.nbytes;
  row.oldest_ms = std::max(row.oldest_ms, age);
  if (known) {
    Road& road = roads[Place(f.via_slot, f.via_inc, f.via_index, f.via_gen)];
    ++road.pins;
    road.nbytes += f.nbytes;
    return;
  }
  ++foreign_pins;
  foreign_bytes += f.nbytes;
  foreign.push_back({age, f.nbytes, r});
  auto older = [](const Lost& a, const Lost& b) { return a.age_ms > b.age_ms; };
  std::push_heap(foreign.begin(), foreign.end(), older);
  if (foreign.size() > kOldest) {
    std::pop_heap(foreign.begin(), foreign.end(), older);
    foreign.pop_back();
  }
}

void Survey::look_at_pins(uint32_t r) {
  uint64_t now = now_ms();
  uint32_t n = std::min(d->rows[r].pin_high.load(acquire), kPins);
  for (uint32_t i = 0, end = 0; i < n && next_pins(r, n, &i, &end); i = end)
    for (; i < end; ++i) look_at_pin(r, i, now);
}

using ULL = unsigned long long;

PyObject* held_of(const Figures& row) {
  PyObject* list = PyList_New(0);
  for (auto [owner, blocks] : row.held_of) {
    if (!list) break;
    PyObject* item = Py_BuildValue("iK", owner < kRows ? int(owner) : -1, ULL(blocks));
    if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
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
    s.look_at_pins(r);
    bool alive = state != kRowZombie && s.is_locked(int(r));
    const Figures& f = s.rows[r];
    PyObject* text = PyUnicode_DecodeUTF8(role, Py_ssize_t(strlen(role)), "replace");
    PyObject* item = Py_BuildValue(
        "{sI sI ss sO sI sK sN sK sK sK sN sK sK sd sK}", "row", r, "incarnation", inc_of_row(word),
        "state", names[state & 3], "alive", alive ? Py_True : Py_False, "pid",
        row.pid.load(acquire), "pid_namespace", ULL(row.pidns.load(relaxed)), "role", text, "slots",
        ULL(f.slots), "committed_bytes", ULL(f.committed), "held_blocks", ULL(f.held),
        "held_of", held_of(f), "unread_messages", ULL(f.pins), "unread_bytes", ULL(f.pin_bytes), "oldest_unread",
        double(f.oldest_ms) * 1e-3, "sent", ULL(f.sent));
    if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

// The channels that messages or segments under way name, and where their roots lie in the volumes.
PyObject* roads_of(Survey& s) {
  PyObject* list = PyList_New(0);
  for (auto& [place, road] : s.roads) {
    uint32_t slot = std::get<0>(place), index = std::get<2>(place);
    uint32_t shift = s.d->slot[slot].shift.load(relaxed);
    uint64_t offset = shift < 32 ? uint64_t(index) << shift : 0;
    if (!list || offset >= kSlotBytes) continue;
    PyObject* item = Py_BuildValue("{sI sK sK sK}", "slot", slot, "offset", ULL(offset), "messages",
                                   ULL(road.pins), "bytes", ULL(road.nbytes));
    if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

PyObject* foreign_of(Survey& s) {
  std::sort(s.foreign.begin(), s.foreign.end(),
            [](const Lost& a, const Lost& b) { return a.age_ms > b.age_ms; });
  PyObject* list = PyList_New(0);
  for (const Lost& lost : s.foreign) {
    if (!list) break;
    PyObject* item = Py_BuildValue("{sI sK sd}", "row", lost.row, "bytes", ULL(lost.nbytes), "age",
                                   double(lost.age_ms) * 1e-3);
    if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

PyObject* py_survey(PyObject*, PyObject* descriptor) {
  int fd = PyObject_AsFileDescriptor(descriptor);
  if (fd < 0) return nullptr;
  try {
    Survey s(fd);
    if (const char* bad = s.open())
      return raise("DomainError", "survey: cannot look at the domain: %s: descriptor %d", bad, fd);
    s.look_at_slots();
    PyObject* rows = rows_of(s);
    PyObject* roads = rows ? roads_of(s) : nullptr;
    PyObject* foreign = roads ? foreign_of(s) : nullptr;
    if (!foreign) {
      Py_XDECREF(rows);
      Py_XDECREF(roads);
      return nullptr;
    }
    return Py_BuildValue(
        "{sN sI sK sK sI sK sN sN sN sK sK}", "id",
        PyBytes_FromStringAndSize(reinterpret_cast<const char*>(s.d->header->id), 16), "slots",
        s.d->slots, "slots_used", ULL(s.used), "slots_orphaned", ULL(s.orphans), "refused_commits",
        s.d->header->short_volume.load(relaxed), "slot_bytes", ULL(kSlotBytes), "rows", rows,
        "channels", roads, "oldest_foreign", foreign, "foreign_messages", ULL(s.foreign_pins),
        "foreign_bytes", ULL(s.foreign_bytes));
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
}

}  // namespace

PyMethodDef survey_functions[] = {
    {"survey", py_survey, METH_O,
     "survey(descriptor of a control file) -> figures of its domain, without joining it.\n"
     "Raises: DomainError."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace shmtensor
