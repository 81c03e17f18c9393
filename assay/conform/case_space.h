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

// For each parameter the set of values that are left, one bit each.
using Domains = std::vector<std::uint64_t>;

// A constraint that has no value for some combination (a division by zero)
// only matters where all others allow that combination, so that one constraint
// can guard another. Not thread-safe: remembers what constraints gave.
class CaseSpace {
 public:
  // Throws Error{kUsage} for a parameter of more than 60 values.
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

  // What is left where some are chosen: not all combinations of it are
  // allowed, but nothing else is. Nullopt where nothing is.
  std::optional<Domains> narrow(const Choice& partial) const;
  // The same where `parameter` takes one more value; false where that leaves
  // nothing, and `domains` is spoilt then.
  bool choose(int parameter, int value, Domains& domains) const;

  // Chooses what is open so that every constraint holds. Nullopt where there
  // is no such choice. Throws Error{kUsage} when the search is hopelessly
  // long, and what a constraint throws that no other guards.
  std::optional<Choice> complete(const Choice& partial) const;
  // The constraints of a smallest set (by inclusion) that no completion of
  // `partial` satisfies; empty where there is a completion.
  std::vector<Expression> conflict(const Choice& partial) const;

 private:
  struct Constraint {
    Expression expression;
    std::vector<int> parameters;  // that it reads
    mutable std::unordered_map<std::uint64_t, bool> known;
  };
  class Rules;

  Domains domains_of(const Choice& partial) const;
  bool may_hold(const Constraint& constraint, const Choice& choice) const;
  Parameters read_by(const Constraint& constraint, const Choice& choice) const;

  std::string module_;
  std::vector<std::string> names_;
  std::vector<std::vector<Value>> values_;
  std::vector<int> listed_;
  std::vector<Constraint> constraints_;
  std::vector<std::vector<int>> readers_;  // of a parameter: constraints
};

}  // namespace assay::conform
