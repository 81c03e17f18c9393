// What usually parts two trainings, worst first: specs/environment/ranks.yaml.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/env/snapshot.h"

namespace assay::env {

struct RankGroup {
  std::string name, why;
  std::vector<std::string> keys;  // globs of "section.key", lower case
};

class RankTable {
 public:
  // The one that the library was built with. Thread-safe.
  static const RankTable& shipped();
  // Throws Error{kUsage} naming origin and line.
  static RankTable parse(const std::string& yaml, const std::string& origin);

  const std::string& date() const { return date_; }
  const std::vector<RankGroup>& groups() const { return groups_; }

  // Position of the group that has the key; groups().size() where none does.
  std::size_t rank(Section section, std::string_view key) const;
  // Why a difference of this key is expected wherever it runs.
  std::optional<std::string> expected(Section section,
                                      std::string_view key) const;
  // The name that a key of one vendor has with all: "visible devices".
  std::optional<std::string> common_name(Section section,
                                         std::string_view key) const;
  // Whether the two are each vendor's word for the same.
  bool same_meaning(Section section, std::string_view key, std::string_view a,
                    std::string_view b) const;
  // "cuda", "npu", ... where only that vendor's stack reads or has it; "".
  std::string vendor(Section section, std::string_view key) const;
  // What an option of a program is that is not given, and whose default it is.
  struct Default {
    std::string value, program;
  };
  std::optional<Default> option_default(const Snapshot& snapshot,
                                        std::string_view key) const;

 private:
  struct Expected {
    std::string why;
    std::vector<std::string> keys;
  };
  struct Pair {
    std::string name;
    std::vector<std::string> keys;
  };
  struct Same {
    std::vector<std::string> keys, values;
  };
  struct Defaults {
    std::string name;
    std::vector<std::string> programs;
    std::map<std::string, std::string> values;
  };
  std::string date_;
  std::vector<RankGroup> groups_;
  std::vector<Expected> expected_;
  std::vector<Pair> pairs_;
  std::vector<Same> same_;
  std::map<std::string, std::vector<std::string>> vendors_;
  std::vector<Defaults> defaults_;
};

// The vendor whose stack a snapshot shows: what its device section says, else
// the one whose variables and libraries it has; "" where it shows none or, but
// for npu and musa, which come with variables of CUDA, several.
std::string vendor_of(const RankTable& table, const Snapshot& snapshot);

}  // namespace assay::env
