// The combinations of parameter values that the constraints of a spec allow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "assay/conform/spec.h"

namespace assay::conform {

// For each parameter the number of one of its values; kOpen: not chosen.
using Choice = std::vector<int>;
inline constexpr int kOpen = -1;

// Not thread-safe: remembers what constraints gave.
class CaseSpace {
 public:
  CaseSpace(const Spec& spec, Tier tier);

  int size() const { return static_cast<int>(names_.size()); }
  // Values that cases draw from: those that the spec lists for the tier.
  int listed(int parameter) const {
    return listed_[static_cast<std::size_t>(parameter)];
  }

  // The choice of some parameters' values, others open. A value that is not
  // listed is added, to be chosen by such a call alone.
  Choice choose(const Parameters& some);
  Parameters parameters(const Choice& choice) const;

  // Whether the constraints hold whose parameters are all chosen.
  bool allows(const Choice& choice) const;
  // Chooses what is open so that every constraint holds; `preferred` tells
  // which value to try first, where it is not empty. Nullopt where there is
  // no such choice. Throws Error{kUsage} when the search is hopelessly long.
  std::optional<Choice> complete(const Choice& partial,
                                 const Choice& preferred = {}) const;
  // The constraints of a smallest set (by inclusion) that no completion of
  // `partial` satisfies; empty where there is a completion.
  std::vector<Expression> conflict(const Choice& partial) const;

 private:
  struct Constraint {
    Expression expression;
    std::vector<int> parameters;  // that it reads
    mutable std::unordered_map<std::uint64_t, bool> known;
  };
  bool holds(const Constraint& constraint, const Choice& choice) const;
  struct Search;

  std::string module_;
  std::vector<std::string> names_;
  std::vector<std::vector<Value>> values_;
  std::vector<int> listed_;
  std::vector<Constraint> constraints_;
};

}  // namespace assay::conform
