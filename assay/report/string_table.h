// A list of distinct strings, each known by its index.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace assay {

class StringTable {
 public:
  // The index of `text`, which is added when it is new. The empty string is 0.
  std::int64_t index(std::string_view text) {
    const auto found = indices_.find(text);
    if (found != indices_.end()) return found->second;
    texts_.emplace_back(text);
    const auto next = static_cast<std::int64_t>(texts_.size() - 1);
    indices_.emplace(texts_.back(), next);
    return next;
  }

  const std::deque<std::string>& texts() const { return texts_; }

 private:
  std::deque<std::string> texts_ = {""};  // addresses stay valid
  std::unordered_map<std::string_view, std::int64_t> indices_ = {{"", 0}};
};

}  // namespace assay
