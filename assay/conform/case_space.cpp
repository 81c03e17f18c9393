#include "assay/conform/case_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "assay/base/error.h"

namespace assay::conform {
namespace {

constexpr std::int64_t kMaxSteps = 2'000'000;

}  // namespace

// Depth first over the open parameters that constraints read; a constraint is
// looked at as soon as the last of its parameters is chosen.
struct CaseSpace::Search {
  const CaseSpace& space;
  const std::vector<const Constraint*>& constraints;
  const Choice& preferred;
  Choice choice;
  std::vector<int> order;                              // of open parameters
  std::vector<std::vector<const Constraint*>> closed;  // by depth: now chosen
  std::int64_t steps = 0;

  Search(const CaseSpace& s, const std::vector<const Constraint*>& c,
         const Choice& partial, const Choice& first)
      : space(s), constraints(c), preferred(first), choice(partial) {
    plan();
  }

  // Most constrained first.
  void plan() {
    std::vector<int> readers(choice.size(), 0);
    for (const Constraint* constraint : constraints)
      for (const int p : constraint->parameters)
        ++readers[static_cast<std::size_t>(p)];
    for (int p = 0; p < space.size(); ++p)
      if (choice[static_cast<std::size_t>(p)] == kOpen) order.push_back(p);
    std::stable_sort(order.begin(), order.end(), [&readers](int a, int b) {
      return readers[static_cast<std::size_t>(a)] >
             readers[static_cast<std::size_t>(b)];
    });
    closed.resize(order.size() + 1);
    for (const Constraint* constraint : constraints) {
      std::size_t depth = 0;
      for (std::size_t i = 0; i < order.size(); ++i)
        if (std::count(constraint->parameters.begin(),
                       constraint->parameters.end(), order[i]))
          depth = i + 1;
      closed[depth].push_back(constraint);
    }
  }

  bool consistent(std::size_t depth) const {
    return std::all_of(closed[depth].begin(), closed[depth].end(),
                       [this](const Constraint* constraint) {
                         return space.holds(*constraint, choice);
                       });
  }

  bool run(std::size_t depth = 0) {
    if (++steps > kMaxSteps)
      throw Error(Code::kUsage,
                  fmt::format("{}: the constraints are too entangled to find "
                              "cases, expected simpler ones",
                              space.module_));
    if (!consistent(depth)) return false;
    if (depth == order.size()) return true;
    const int parameter = order[depth];
    int& chosen = choice[static_cast<std::size_t>(parameter)];
    const int count = space.listed(parameter);
    const int start =
        preferred.empty()
            ? 0
            : std::max(0, preferred[static_cast<std::size_t>(parameter)]);
    for (int i = 0; i < count; ++i) {
      chosen = (start + i) % count;
      if (run(depth + 1)) return true;
    }
    chosen = kOpen;
    return false;
  }
};

CaseSpace::CaseSpace(const Spec& spec, Tier tier) : module_(spec.module) {
  for (const Parameter& parameter : spec.parameters) {
    names_.push_back(parameter.name);
    values_.push_back(parameter.values(tier));
    listed_.push_back(static_cast<int>(values_.back().size()));
  }
  for (const Expression& expression : spec.constraints) {
    Constraint constraint{expression, {}, {}};
    const std::set<std::string> read = expression.names();
    for (int p = 0; p < size(); ++p)
      if (read.count(names_[static_cast<std::size_t>(p)]))
        constraint.parameters.push_back(p);
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
      found = values.insert(found, given->second);
      for (const Constraint& constraint : constraints_)
        constraint.known.clear();
    }
    choice[p] = static_cast<int>(found - values.begin());
  }
  return choice;
}

Parameters CaseSpace::parameters(const Choice& choice) const {
  Parameters parameters;
  for (std::size_t p = 0; p < names_.size(); ++p)
    if (choice[p] != kOpen)
      parameters[names_[p]] = values_[p][static_cast<std::size_t>(choice[p])];
  return parameters;
}

bool CaseSpace::holds(const Constraint& constraint,
                      const Choice& choice) const {
  std::uint64_t key = 0;
  bool remember = true;
  for (const int p : constraint.parameters) {
    const std::size_t count = values_[static_cast<std::size_t>(p)].size();
    if (key > UINT64_MAX / count - 1) remember = false;  // would wrap
    key = key * count +
          static_cast<std::uint64_t>(choice[static_cast<std::size_t>(p)]);
  }
  if (remember) {
    const auto found = constraint.known.find(key);
    if (found != constraint.known.end()) return found->second;
  }
  Parameters parameters;
  for (const int p : constraint.parameters) {
    const auto i = static_cast<std::size_t>(p);
    parameters[names_[i]] = values_[i][static_cast<std::size_t>(choice[i])];
  }
  const bool result = constraint.expression.holds(parameters);
  if (remember) constraint.known[key] = result;
  return result;
}

bool CaseSpace::allows(const Choice& choice) const {
  for (const Constraint& constraint : constraints_) {
    const bool chosen =
        std::all_of(constraint.parameters.begin(), constraint.parameters.end(),
                    [&choice](int p) {
                      return choice[static_cast<std::size_t>(p)] != kOpen;
                    });
    if (chosen && !holds(constraint, choice)) return false;
  }
  return true;
}

std::optional<Choice> CaseSpace::complete(const Choice& partial,
                                          const Choice& preferred) const {
  std::vector<const Constraint*> all;
  for (const Constraint& constraint : constraints_) all.push_back(&constraint);
  Search search(*this, all, partial, preferred);
  if (!search.run()) return std::nullopt;
  return std::move(search.choice);
}

std::vector<Expression> CaseSpace::conflict(const Choice& partial) const {
  std::vector<const Constraint*> kept;
  for (const Constraint& constraint : constraints_) kept.push_back(&constraint);
  const auto satisfiable = [&] {
    return Search(*this, kept, partial, {}).run();
  };
  if (satisfiable()) return {};
  for (std::size_t i = 0; i < kept.size();) {
    const Constraint* tried = kept[i];
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    if (!satisfiable()) continue;
    kept.insert(kept.begin() + static_cast<std::ptrdiff_t>(i), tried);
    ++i;
  }
  std::vector<Expression> named;
  for (const Constraint* constraint : kept)
    named.push_back(constraint->expression);
  return named;
}

}  // namespace assay::conform
