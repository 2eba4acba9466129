// Included ahead of the channel's sources: what they ask of their process goes to the virtual one.
#pragma once

#include "memory/ledger/block.h"
#include "memory/heap/heap.h"
#include "memory/ledger/ledger.h"

namespace shmtensor {

bool virtual_hold(const Handle& handle, void** base, size_t* nbytes);
BlockRef virtual_around(const void* p);
bool virtual_export(const BlockRef& block, const BlockRef& via, Handle* out);
void virtual_drop(void* base);
void virtual_acknowledge(const Handle& handle);
void* virtual_allocate(size_t nbytes);
void virtual_free(void* base);
Self virtual_self();
PyObject* virtual_block(void* base, size_t nbytes, Origin origin);
void* virtual_base(PyObject* block);
size_t virtual_nbytes(PyObject* block);

}  // namespace shmtensor

#define hold_block virtual_hold
#define block_around virtual_around
#define export_block virtual_export
#define drop_block virtual_drop
#define acknowledge virtual_acknowledge
#define allocate_shared virtual_allocate
#define heap_free virtual_free
#define self virtual_self
#define new_block virtual_block
#define block_base virtual_base
#define block_nbytes virtual_nbytes
