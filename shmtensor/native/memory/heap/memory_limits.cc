// Reading memory cgroups, v1 and v2, from the own group up to the root, the machine's free memory, and the limit of
// strict accounting.
#include "memory/heap/memory_limits.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mutex>
#include <new>

#include "memory/domain/domain.h"

namespace shmtensor {

static bool read_text(const char* path, char* text, size_t n) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t length = 0;
  for (ssize_t k; length < n - 1 && (k = read(fd, text + length, n - 1 - length)) > 0;) length += size_t(k);
  close(fd);
  text[length] = 0;
  return true;
}

static bool read_number(const char* directory, const char* file, uint64_t* value) {
  char path[1200], text[64];
  snprintf(path, sizeof path, "%s/%s", directory, file);
  if (!read_text(path, text, sizeof text)) return false;
  *value = strncmp(text, "max", 3) == 0 ? UINT64_MAX : strtoull(text, nullptr, 10);
  return true;
}

static uint64_t field(const char* text, const char* name) {
  size_t n = strlen(name);
  for (const char* p = text; p && *p; p = strchr(p, '\n')) {
    if (*p == '\n') ++p;
    if (strncmp(p, name, n) == 0 && (p[n] == ' ' || p[n] == ':')) return strtoull(p + n + 1, nullptr, 10);
  }
  return 0;
}

// File pages, which the usage includes and which the kernel drops before it kills; shared memory is not among them.
static uint64_t reclaimable(const char* directory, bool v2) {
  char path[1200], text[8192];
  snprintf(path, sizeof path, "%s/memory.stat", directory);
  if (!read_text(path, text, sizeof text)) return 0;
  return v2 ? field(text, "inactive_file") + field(text, "active_file")
            : field(text, "total_inactive_file") + field(text, "total_active_file");
}

static void read_group(const char* directory, const char* path, bool v2, Headroom* h) {
  uint64_t limit, used;
  if (!read_number(directory, v2 ? "memory.max" : "memory.limit_in_bytes", &limit) || limit >= 1ull << 60) return;
  if (!read_number(directory, v2 ? "memory.current" : "memory.usage_in_bytes", &used)) return;
  uint64_t cache = reclaimable(directory, v2);
  used -= cache < used ? cache : used;
  // Page tables, stacks and Python objects are charged to the same group: reserve some memory for them.
  uint64_t reserve = limit / 16 < (64u << 20) ? limit / 16 : 64u << 20;
  uint64_t free = limit > used + reserve ? limit - used - reserve : 0;
  if (free < h->available) {
    h->available = free;
    h->limit = limit;
    snprintf(h->name, sizeof h->name, "memory cgroup %.180s", *path ? path : "/");
  }
}

// The own group and its ancestors under one mount. `path` as in /proc/self/cgroup, `top` as the
// mount's root in mountinfo.
static void read_group_and_ancestors(const char* root, const char* mount, const char* top, const char* path, bool v2,
                                     Headroom* h) {
  char tail[600], directory[1100];
  size_t n = strcmp(top, "/") == 0 ? 0 : strlen(top);
  bool inside = strncmp(path, top, n) == 0;
  snprintf(tail, sizeof tail, "%s", inside ? path + n : "");
  for (;;) {
    size_t k = strlen(tail);
    while (k && tail[k - 1] == '/') tail[--k] = 0;
    snprintf(directory, sizeof directory, "%s%s%s", root, mount, tail);
    read_group(directory, tail, v2, h);
    if (!k) return;
    char* slash = strrchr(tail, '/');
    if (!slash) return;
    *slash = 0;
  }
}

static bool has_word(const char* list, const char* word, char separator) {
  size_t n = strlen(word);
  for (const char* p = list; p; p = strchr(p, separator)) {
    if (*p == separator) ++p;
    if (strncmp(p, word, n) == 0 && (p[n] == separator || p[n] == 0)) return true;
  }
  return false;
}

// Strict accounting (vm.overcommit_memory = 2): shared pages are charged when they are committed, and beyond the limit
// all programs of the machine are refused private memory, too.
static void read_strict_accounting(const char* root, const char* memory, Headroom* h) {
  char directory[600];
  uint64_t mode;
  snprintf(directory, sizeof directory, "%s/proc/sys/vm", root);
  if (!read_number(directory, "overcommit_memory", &mode) || mode != 2) return;
  uint64_t limit = field(memory, "CommitLimit") * 1024;
  uint64_t reserve = limit / 64 < (256u << 20) ? limit / 64 : 256u << 20;
  uint64_t used = field(memory, "Committed_AS") * 1024 + reserve;
  uint64_t free = limit > used ? limit - used : 0;
  if (!limit || free >= h->available) return;
  h->available = free;
  h->limit = limit;
  snprintf(h->name, sizeof h->name, "strict accounting (vm.overcommit_memory = 2)");
}

static std::mutex reading;

Headroom read_headroom(const char* root) {
  Headroom h;
  std::lock_guard<std::mutex> lock(reading);
  static char groups[8192], mounts[65536], memory[8192];
  char path[600];
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  if (read_text(path, memory, sizeof memory)) {
    uint64_t free = field(memory, "MemAvailable") * 1024, total = field(memory, "MemTotal") * 1024;
    uint64_t reserve = total / 64 < (256u << 20) ? total / 64 : 256u << 20;
    free += field(memory, "SwapFree") * 1024;
    if (total) {
      h.available = free > reserve ? free - reserve : 0;
      h.limit = total;
      snprintf(h.name, sizeof h.name, "this machine");
    }
    read_strict_accounting(root, memory, &h);
  }
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  if (!read_text(path, groups, sizeof groups)) return h;
  snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
  if (!read_text(path, mounts, sizeof mounts)) return h;
  char* save = nullptr;
  for (char* line = strtok_r(groups, "\n", &save); line; line = strtok_r(nullptr, "\n", &save)) {
    // "4:memory:/a/b" (v1) or "0::/a/b" (v2)
    char* controllers = strchr(line, ':');
    char* group = controllers ? strchr(controllers + 1, ':') : nullptr;
    if (!group) continue;
    *group++ = 0;
    ++controllers;
    bool v2 = *controllers == 0;
    if (!v2 && !has_word(controllers, "memory", ',')) continue;
    for (char* m = mounts; m && *m; m = strchr(m, '\n') ? strchr(m, '\n') + 1 : nullptr) {
      // "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory"
      char copy[1600], top[500], point[500], type[64], options[500];
      size_t k = strcspn(m, "\n");
      if (k >= sizeof copy) continue;
      memcpy(copy, m, k);
      copy[k] = 0;
      char* dash = strstr(copy, " - ");
      if (!dash || sscanf(copy, "%*s %*s %*s %499s %499s", top, point) != 2 ||
          sscanf(dash + 3, "%63s %*s %499s", type, options) != 2)
        continue;
      if (v2 ? strcmp(type, "cgroup2") == 0 : strcmp(type, "cgroup") == 0 && has_word(options, "memory", ',')) {
        read_group_and_ancestors(root, point, top, group, v2, &h);
        break;
      }
    }
  }
  return h;
}

// ---- the last reading. It has its own mutex: commits of large blocks run outside the ledger mutex.
static std::mutex mutex;
static Headroom current;
static uint64_t reserved = 0, read_at = 0;

bool take_headroom(size_t n) {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t now = now_ms();
  // Other processes commit, too: use half of the reading.
  if (!read_at || now - read_at > 100 || reserved + n > current.available / 2) {
    current = read_headroom("");
    reserved = 0;
    read_at = now ? now : 1;
  }
  if (n > current.available) return false;
  reserved += n;
  return true;
}

Headroom last_headroom() {
  std::lock_guard<std::mutex> lock(mutex);
  if (!read_at) current = read_headroom("");
  return current;
}

Headroom recent_headroom(uint64_t age_ms) {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t now = now_ms();
  if (!read_at || now - read_at > age_ms) {
    current = read_headroom("");
    reserved = 0;
    read_at = now ? now : 1;
  }
  return current;
}

void headroom_after_fork() {  // another thread of the parent may have held them
  new (&mutex) std::mutex;
  new (&reading) std::mutex;
  read_at = 0;
}

void forget_headroom() {
  std::lock_guard<std::mutex> lock(mutex);
  read_at = 0;
}

}  // namespace shmtensor
