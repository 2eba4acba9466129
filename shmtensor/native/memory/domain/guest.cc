// Guests: join by descriptors, lookup by address or id, leave with the last hold.
#include "memory/domain/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "memory/inspect/fault_points.h"
#include "memory/domain/files.h"
#include "memory/ledger/ledger.h"
#include "memory/domain/liveness.h"

namespace shmtensor {

Domain* guests[kGuests];
std::atomic<int> guest_count{0};

// Note [Guest ranges]: is_shared() takes no lock. The ranges are atomics that are never freed. The caller holds the block
// at its address, so that range cannot vanish meanwhile. A torn read of another range (old base, new size) can at worst
// return true for memory that belongs to nobody.
static std::atomic<const char*> range_base[kGuests];
static std::atomic<size_t> range_size[kGuests];

bool guest_shares(const void* p) {
  for (int i = 0; i < kGuests; ++i)
    if (size_t(static_cast<const char*>(p) - range_base[i].load(relaxed)) < range_size[i].load(acquire)) return true;
  return false;
}

Domain* domain_at(const void* p) {
  if (domain.contains(p)) return &domain;
  Domain* result = nullptr;
  each_guest([&](Domain& d) {
    if (d.contains(p)) result = &d;
  });
  return result;
}

Domain* domain_of(const uint8_t id[16]) {
  if (memcmp(domain.id, id, sizeof domain.id) == 0) return &domain;
  Domain* result = nullptr;
  each_guest([&](Domain& d) {
    if (memcmp(d.id, id, sizeof d.id) == 0) result = &d;
  });
  return result;
}

Domain* new_domain() {
  void* p = mmap(nullptr, sizeof(Domain), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : new (p) Domain;
}

// Unmaps before it closes the lock: a free lock while the control file is mapped looks like one that was closed by
// mistake. In mode "process" it yields the row first, which needs the mapping; the process stays alive.
void leave_domain(Domain* d) {
  for (uint32_t s = 0; s < d->slots; ++s)
    if (d->arenas[s] && d->arenas[s]->slot == s) drop_arena(d->arenas[s]);
  if (d->base) leave_row(*d);
  if (d->base) unmap_domain(*d);
  fault("guest.unmapped");
  leave_files(*d);
  drop_local_ledger(d->local);
  munmap(d, sizeof *d);
}

// Makes a read-only guest writable: the same addresses, other descriptors.
static const char* widen(Domain& d, const int fds[3]) {
  int volume[2] = {high_descriptor(fcntl(fds[1], F_DUPFD_CLOEXEC, 3)), high_descriptor(fcntl(fds[2], F_DUPFD_CLOEXEC, 3))};
  const char* error = nullptr;
  if (volume[0] < 0 || volume[1] < 0) error = with_errno("cannot duplicate its descriptors");
  if (!error) {
    std::swap(volume, d.volume);
    d.read_only = false;
    error = map_volumes(d);
    if (error) {
      std::swap(volume, d.volume);
      d.read_only = true;
    }
  }
  for (int fd : volume)
    if (fd >= 0) close(fd);
  return error;
}

const char* guest_join(const int fds[3], const uint8_t id[16], bool read_only, Domain** out) {
  if ((*out = domain_of(id))) {
    if (!(*out)->read_only || read_only) return nullptr;
    return widen(**out, fds);
  }
  int i = 0;
  while (i < kGuests && guests[i]) ++i;
  if (i == kGuests) return error_with("this process is a guest in %d domains already", kGuests);
  Domain* d = new_domain();
  if (!d) return with_errno("no memory");
  d->read_only = read_only;
  fault("guest.join");
  if (const char* error = join_files(*d, fds, id)) {
    munmap(d, sizeof *d);
    return error;
  }
  fault("guest.joined");
  guests[i] = *out = d;
  range_base[i].store(d->base, relaxed);
  range_size[i].store(d->shared, release);
  guest_count.fetch_add(1, relaxed);
  return nullptr;
}

void leave_if_idle(Domain* d) {
  if (d->holds || d->rowless) return;
  for (int i = 0; i < kGuests; ++i)
    if (guests[i] == d) {
      range_size[i].store(0, release);
      guests[i] = nullptr;
      guest_count.fetch_sub(1, relaxed);
      leave_domain(d);
      return;
    }
}

void hide_guest(Domain& d) {
  for (int i = 0; i < kGuests; ++i)
    if (guests[i] == &d) range_size[i].store(0, release);
}

}  // namespace shmtensor
