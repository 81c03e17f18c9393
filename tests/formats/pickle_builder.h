// Writes pickles opcode by opcode, and torch archives around them.
#pragma once

#include <string>
#include <vector>

#include "tests/formats/zip_builder.h"

namespace assay::pickled {

inline std::string text(const std::string& value) {
  std::string out = "X";
  out += little(value.size(), 4);
  return out += value;
}
inline std::string integer(std::int64_t value) {
  std::string out = "\x8a\x08";
  return out += little(static_cast<std::uint64_t>(value), 8);
}
inline std::string global(const std::string& module, const std::string& name) {
  std::string out = "c";
  out += module;
  out += '\n';
  out += name;
  return out += '\n';
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}
inline std::string integers(const std::vector<std::int64_t>& values) {
  std::vector<std::string> items;
  for (const std::int64_t value : values) items.push_back(integer(value));
  return tuple(items);
}
inline std::string call(const std::string& function,
                        const std::vector<std::string>& arguments) {
  return function + tuple(arguments) + "R";
}
inline std::string ordered_dict() {
  return call(global("collections", "OrderedDict"), {});
}
inline std::string storage(const std::string& type, std::int64_t count,
                           const std::string& key = "0") {
  return tuple({text("storage"), global("torch", type), text(key), text("cpu"),
                integer(count)}) +
         "Q";
}
inline std::string tensor(const std::string& store, std::int64_t offset,
                          const std::vector<std::int64_t>& size,
                          const std::vector<std::int64_t>& stride) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              {store, integer(offset), integers(size), integers(stride), "\x89",
               ordered_dict()});
}
inline std::string whole(const std::string& body) {
  std::string out = "\x80\x02";
  out += body;
  return out += '.';
}

// The archive torch.save would make of `pickle` (a whole one) and storage 0.
inline Archive archive(const std::string& pickle, const std::string& data) {
  return {.members = {{.name = "t/data.pkl", .content = pickle},
                      {.name = "t/byteorder", .content = "little"},
                      {.name = "t/data/0", .content = data},
                      {.name = "t/version", .content = "3\n"}}};
}

}  // namespace assay::pickled
