// Records: comparing calls, and describing them.
#include <cstring>

#include "ipc/process_group/group.h"

namespace shmtensor::group {

const char* name_of(Collective what) {
  static const char* const names[] = {"nothing",    "barrier",        "broadcast", "all_reduce", "reduce",
                                      "all_gather", "reduce_scatter", "gather",    "scatter",    "all_to_all",
                                      "exchange",   "send",           "recv"};
  return names[static_cast<int>(what)];
}

const char* name_of(ReduceOp op) {
  static const char* const names[] = {"SUM", "PRODUCT", "MIN", "MAX", "AVG", "BAND", "BOR", "BXOR", "PREMUL_SUM", ""};
  return names[static_cast<int>(op)];
}

bool Record::same_call(const Record& other) const {
  if (what == Collective::Exchange) return what == other.what && number == other.number;  // sizes were compared before
  if (number != other.number || what != other.what || op != other.op || dtype != other.dtype || ndim != other.ndim ||
      root != other.root || nbytes != other.nbytes)
    return false;
  return memcmp(shape, other.shape, sizeof shape) == 0;
}

std::string Record::text() const {
  std::string out = std::string(name_of(what)) + "(";
  const char* comma = "";
  if (dtype >= 0) {
    static const char* const names[] = {"bool",    "int8",       "uint8",     "int16",     "uint16", "int32",
                                        "uint32",  "int64",      "uint64",    "int64",     "uint64", "float32",
                                        "float64", "longdouble", "complex64", "complex128"};
    out += dtype < 16    ? names[static_cast<int>(dtype)]
           : dtype == 23 ? "float16"
           : dtype == 24 ? "bfloat16"
                         : "dtype " + std::to_string(dtype);
    out += " (";
    for (int i = 0; i < ndim && i < kMaxDims; i++)
      out += (i ? ", " : "") + std::to_string(shape[i]) + (ndim == 1 ? "," : "");
    out += ")";
    comma = ", ";
  } else if (nbytes) {
    out += std::to_string(nbytes) + " bytes";
    comma = ", ";
  }
  if (op != ReduceOp::None) out += std::string(comma) + name_of(op), comma = ", ";
  if (what == Collective::Message || what == Collective::Receive) {
    const char* way = what == Collective::Message ? "to" : "from";
    if (root == kAnyRank) out += std::string(comma) + "from any rank";
    if (root >= 0) out += std::string(comma) + way + " rank " + std::to_string(root), comma = ", ";
    if (number) out += std::string(comma) + "tag " + std::to_string(number);
  } else if (root >= 0) {
    out += std::string(comma) + "root " + std::to_string(root);
  }
  return out + ")";
}

}  // namespace shmtensor::group
