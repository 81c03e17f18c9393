// A set of steps or ranks as a flag gives it: "0,2,4-7".
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace assay {

class NumberSet {
 public:
  NumberSet() = default;
  // "" is the set of all. Throws Error{kUsage} naming `flag`.
  NumberSet(const std::string& flag, const std::string& text);

  bool contains(std::int64_t number) const;

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;  // inclusive
};

}  // namespace assay
