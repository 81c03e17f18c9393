// A hash table from names to positions that hands out equal names in order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace assay {

// Names are compared as bytes and must outlive the index. take() gives every
// position once: the k-th take of a name is its k-th insertion. Linear time.
class NameIndex {
 public:
  explicit NameIndex(std::size_t expected);

  void insert(std::string_view name, std::int32_t position);
  // The first position of `name` not taken yet, -1 when there is none.
  std::int32_t take(std::string_view name);
  bool contains(std::string_view name) const;  // taken ones too

 private:
  struct Slot {
    std::string_view name;
    std::int32_t head = -1;  // first entry not taken
    std::int32_t tail = -1;  // -1: the slot is free
  };
  struct Entry {
    std::int32_t position;
    std::int32_t next;
  };
  std::size_t find(std::string_view name) const;

  std::vector<Slot> slots_;  // power of two, at most half full
  std::vector<Entry> entries_;
};

}  // namespace assay
