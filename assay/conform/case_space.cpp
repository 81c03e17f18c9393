#include "assay/conform/case_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "assay/base/error.h"

namespace assay::conform {
namespace {

constexpr std::size_t kMaxValues = 60;  // and a few unlisted ones: 64 bits
constexpr std::int64_t kMaxNodes = 20000;
// A constraint is looked into where it has at most so many combinations left.
constexpr std::int64_t kMaxCombinations = 256;

std::size_t at(int index) { return static_cast<std::size_t>(index); }
int count(std::uint64_t set) { return std::popcount(set); }
int first(std::uint64_t set) { return std::countr_zero(set); }

}  // namespace

// Some of a space's constraints: what they leave of domains, and a search
// among that (generalised arc consistency where it is cheap, smallest domain
// first).
class CaseSpace::Rules {
 public:
  // `active`: for each constraint whether it counts; empty: all of them.
  Rules(const CaseSpace& space, const std::vector<bool>& active)
      : space_(space), active_(active) {}

  // Takes out what no allowed combination has. False where nothing is left.
  // `changed`: the parameter whose domain is new, or all of them (kOpen).
  bool propagate(Domains& domains, int changed) const {
    std::vector<int> queue;
    std::vector<bool> queued(space_.constraints_.size(), false);
    const auto push = [&](int c) {
      if (queued[at(c)] || (!active_.empty() && !active_[at(c)])) return;
      queued[at(c)] = true;
      queue.push_back(c);
    };
    if (changed == kOpen) {
      for (std::size_t c = 0; c < space_.constraints_.size(); ++c)
        push(static_cast<int>(c));
    } else {
      for (const int c : space_.readers_[at(changed)]) push(c);
    }
    while (!queue.empty()) {
      const int c = queue.back();
      queue.pop_back();
      queued[at(c)] = false;
      if (!revise(space_.constraints_[at(c)], domains, [&](int parameter) {
            for (const int reader : space_.readers_[at(parameter)])
              if (reader != c) push(reader);
          }))
        return false;
    }
    return true;
  }

  // Domains of one value each, where there is such a solution.
  std::optional<Domains> solve(Domains domains) {
    if (!propagate(domains, kOpen)) return std::nullopt;
    std::optional<Domains> found = search(std::move(domains));
    if (found) check(*found);
    return found;
  }

 private:
  template <typename Narrowed>
  bool revise(const Constraint& constraint, Domains& domains,
              Narrowed narrowed) const {
    std::int64_t combinations = 1;
    for (const int p : constraint.parameters) {
      combinations *= count(domains[at(p)]);
      if (combinations > kMaxCombinations) return true;
    }
    Domains supported(constraint.parameters.size(), 0);
    Choice choice(domains.size(), kOpen);
    collect(constraint, domains, 0, choice, supported);
    for (std::size_t i = 0; i < supported.size(); ++i) {
      const int p = constraint.parameters[i];
      if (supported[i] == 0) return false;
      if (supported[i] == domains[at(p)]) continue;
      domains[at(p)] = supported[i];
      narrowed(p);
    }
    // A constraint without parameters is a constant.
    return !constraint.parameters.empty() ||
           space_.may_hold(constraint, choice);
  }

  void collect(const Constraint& constraint, const Domains& domains,
               std::size_t depth, Choice& choice, Domains& supported) const {
    if (depth == constraint.parameters.size()) {
      if (!space_.may_hold(constraint, choice)) return;
      for (std::size_t i = 0; i < depth; ++i)
        supported[i] |= std::uint64_t{1}
                        << choice[at(constraint.parameters[i])];
      return;
    }
    const int p = constraint.parameters[depth];
    for (std::uint64_t left = domains[at(p)]; left; left &= left - 1) {
      choice[at(p)] = first(left);
      collect(constraint, domains, depth + 1, choice, supported);
    }
  }

  std::optional<Domains> search(Domains domains) {
    if (++nodes_ > kMaxNodes)
      throw Error(Code::kUsage,
                  fmt::format("{}: the constraints are too entangled to find "
                              "cases, expected simpler ones",
                              space_.module_));
    const int p = smallest_open(domains);
    if (p == kOpen) return domains;
    for (std::uint64_t left = domains[at(p)]; left; left &= left - 1) {
      Domains next = domains;
      next[at(p)] = left & (~left + 1);  // the lowest bit
      if (!propagate(next, p)) continue;
      if (std::optional<Domains> found = search(std::move(next))) return found;
    }
    return std::nullopt;
  }

  // Throws what an unguarded constraint throws.
  void check(const Domains& solved) const {
    Choice choice;
    for (const std::uint64_t domain : solved) choice.push_back(first(domain));
    for (std::size_t c = 0; c < space_.constraints_.size(); ++c) {
      if (!active_.empty() && !active_[c]) continue;
      const Constraint& constraint = space_.constraints_[c];
      constraint.expression.holds(space_.read_by(constraint, choice));
    }
  }

  // Kept for last: parameters that nothing reads.
  int smallest_open(const Domains& domains) const {
    int best = kOpen;
    int best_count = 1 << 20;
    for (int p = 0; p < space_.size(); ++p) {
      if (count(domains[at(p)]) < 2) continue;
      const int weight =
          count(domains[at(p)]) + (space_.readers_[at(p)].empty() ? 100 : 0);
      if (weight >= best_count) continue;
      best_count = weight;
      best = p;
    }
    return best;
  }

  const CaseSpace& space_;
  const std::vector<bool> active_;
  std::int64_t nodes_ = 0;
};

CaseSpace::CaseSpace(const Spec& spec, Tier tier) : module_(spec.module) {
  for (const Parameter& parameter : spec.parameters) {
    names_.push_back(parameter.name);
    values_.push_back(parameter.values(tier));
    if (values_.back().size() > kMaxValues)
      throw Error(Code::kUsage,
                  fmt::format("{}: parameter {} has {} values, expected at "
                              "most {}",
                              spec.path, parameter.name, values_.back().size(),
                              kMaxValues));
    listed_.push_back(static_cast<int>(values_.back().size()));
  }
  readers_.resize(names_.size());
  for (const Expression& expression : spec.constraints) {
    Constraint constraint{expression, {}, {}};
    const std::set<std::string> read = expression.names();
    for (int p = 0; p < size(); ++p) {
      if (!read.count(names_[at(p)])) continue;
      constraint.parameters.push_back(p);
      readers_[at(p)].push_back(static_cast<int>(constraints_.size()));
    }
    constraints_.push_back(std::move(constraint));
  }
}

Choice CaseSpace::choose(const Parameters& some) {
  Choice choice(names_.size(), kOpen);
  for (std::size_t p = 0; p < names_.size(); ++p) {
    const auto given = some.find(names_[p]);
    if (given == some.end()) continue;
    std::vector<Value>& values = values_[p];
    auto found = std::find(values.begin(), values.end(), given->second);
    if (found == values.end()) {
      if (values.size() >= 64)
        throw Error(Code::kUsage,
                    fmt::format("{}: too many pinned values of {}", module_,
                                names_[p]));
      found = values.insert(found, given->second);
    }
    choice[p] = static_cast<int>(found - values.begin());
  }
  return choice;
}

Parameters CaseSpace::parameters(const Choice& choice) const {
  Parameters parameters;
  for (std::size_t p = 0; p < names_.size(); ++p)
    if (choice[p] != kOpen) parameters[names_[p]] = values_[p][at(choice[p])];
  return parameters;
}

Parameters CaseSpace::read_by(const Constraint& constraint,
                              const Choice& choice) const {
  Parameters parameters;
  for (const int p : constraint.parameters)
    parameters[names_[at(p)]] = values_[at(p)][at(choice[at(p)])];
  return parameters;
}

bool CaseSpace::may_hold(const Constraint& constraint,
                         const Choice& choice) const {
  // Six bits a value; the few that read more than ten are not remembered.
  const bool remember = constraint.parameters.size() <= 10;
  std::uint64_t key = 0;
  for (const int p : constraint.parameters)
    key = key << 6 | static_cast<std::uint64_t>(choice[at(p)]);
  if (remember) {
    const auto found = constraint.known.find(key);
    if (found != constraint.known.end()) return found->second;
  }
  bool result = true;  // where it has no value
  try {
    result = constraint.expression.holds(read_by(constraint, choice));
  } catch (const Error&) {
  }
  if (remember) constraint.known[key] = result;
  return result;
}

Domains CaseSpace::domains_of(const Choice& partial) const {
  Domains domains;
  for (std::size_t p = 0; p < names_.size(); ++p)
    domains.push_back(partial[p] != kOpen
                          ? std::uint64_t{1} << partial[p]
                          : (std::uint64_t{1} << listed_[p]) - 1);
  return domains;
}

std::optional<Domains> CaseSpace::narrow(const Choice& partial) const {
  Domains domains = domains_of(partial);
  if (!Rules(*this, {}).propagate(domains, kOpen)) return std::nullopt;
  return domains;
}

bool CaseSpace::choose(int parameter, int value, Domains& domains) const {
  domains[at(parameter)] &= std::uint64_t{1} << value;
  return domains[at(parameter)] != 0 &&
         Rules(*this, {}).propagate(domains, parameter);
}

std::optional<Choice> CaseSpace::complete(const Choice& partial) const {
  const std::optional<Domains> solved =
      Rules(*this, {}).solve(domains_of(partial));
  if (!solved) return std::nullopt;
  Choice choice;
  for (const std::uint64_t domain : *solved) choice.push_back(first(domain));
  return choice;
}

std::vector<Expression> CaseSpace::conflict(const Choice& partial) const {
  std::vector<bool> active(constraints_.size(), true);
  const auto satisfiable = [&] {
    return Rules(*this, active).solve(domains_of(partial)).has_value();
  };
  if (satisfiable()) return {};
  for (std::size_t c = 0; c < active.size(); ++c) {
    active[c] = false;
    if (satisfiable()) active[c] = true;
  }
  std::vector<Expression> named;
  for (std::size_t c = 0; c < active.size(); ++c)
    if (active[c]) named.push_back(constraints_[c].expression);
  return named;
}

}  // namespace assay::conform
