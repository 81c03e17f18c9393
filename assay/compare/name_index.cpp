#include "assay/compare/name_index.h"

#include <bit>
#include <functional>

namespace assay {

NameIndex::NameIndex(std::size_t expected)
    : slots_(std::bit_ceil(2 * expected + 2)) {
  entries_.reserve(expected);
}

std::size_t NameIndex::find(std::string_view name) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = std::hash<std::string_view>{}(name)&mask;
  while (slots_[at].tail >= 0 && slots_[at].name != name) at = (at + 1) & mask;
  return at;
}

void NameIndex::insert(std::string_view name, std::int32_t position) {
  Slot& slot = slots_[find(name)];
  const auto entry = static_cast<std::int32_t>(entries_.size());
  entries_.push_back({position, -1});
  if (slot.tail >= 0) entries_[slot.tail].next = entry;
  if (slot.head < 0) slot.head = entry;
  slot.name = name;
  slot.tail = entry;
}

std::int32_t NameIndex::take(std::string_view name) {
  Slot& slot = slots_[find(name)];
  if (slot.head < 0) return -1;
  const Entry& entry = entries_[slot.head];
  slot.head = entry.next;
  return entry.position;
}

bool NameIndex::contains(std::string_view name) const {
  return slots_[find(name)].tail >= 0;
}

}  // namespace assay
