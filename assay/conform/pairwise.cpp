#include "assay/conform/pairwise.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "assay/core/philox.h"

namespace assay::conform {
namespace {

constexpr int kCandidates = 60;

struct Pair {
  int a, i, b, j;  // value i of parameter a with value j of b, a < b
};

// Which pairs there are, and how many cases have each.
class Pairs {
 public:
  explicit Pairs(const CaseSpace& space) : space_(space) {
    const int n = space.size();
    offset_.assign(static_cast<std::size_t>(n * n), 0);
    std::size_t next = 0;
    for (int a = 0; a < n; ++a)
      for (int b = a + 1; b < n; ++b) {
        offset_[static_cast<std::size_t>(a * n + b)] = next;
        next += static_cast<std::size_t>(space.listed(a)) *
                static_cast<std::size_t>(space.listed(b));
      }
    count_.assign(next, kImpossible);
    find_possible();
  }

  bool possible(int a, int i, int b, int j) const {
    return count_[index(a, i, b, j)] >= 0;
  }
  bool uncovered(int a, int i, int b, int j) const {
    return count_[index(a, i, b, j)] == 0;
  }
  // Calls visit(count) for every pair of the choice's listed values.
  template <typename Visit>
  void each(const Choice& choice, Visit visit) {
    for (int a = 0; a < space_.size(); ++a)
      for (int b = a + 1; b < space_.size(); ++b) {
        const int i = choice[static_cast<std::size_t>(a)];
        const int j = choice[static_cast<std::size_t>(b)];
        if (i < space_.listed(a) && j < space_.listed(b))
          visit(count_[index(a, i, b, j)]);
      }
  }
  void add(const Choice& choice, int by) {
    each(choice, [by](int& count) { count += by; });
  }
  std::vector<Pair> remaining() const {
    std::vector<Pair> pairs;
    visit_all([&](const Pair& p) {
      if (uncovered(p.a, p.i, p.b, p.j)) pairs.push_back(p);
    });
    return pairs;
  }

 private:
  static constexpr int kImpossible = -1000000;

  std::size_t index(int a, int i, int b, int j) const {
    if (a > b) {
      std::swap(a, b);
      std::swap(i, j);
    }
    return offset_[static_cast<std::size_t>(a * space_.size() + b)] +
           static_cast<std::size_t>(i) *
               static_cast<std::size_t>(space_.listed(b)) +
           static_cast<std::size_t>(j);
  }
  template <typename Visit>
  void visit_all(Visit visit) const {
    for (int a = 0; a < space_.size(); ++a)
      for (int b = a + 1; b < space_.size(); ++b)
        for (int i = 0; i < space_.listed(a); ++i)
          for (int j = 0; j < space_.listed(b); ++j) visit(Pair{a, i, b, j});
  }
  // One search shows many pairs to be possible at once.
  void find_possible() {
    visit_all([&](const Pair& p) {
      if (possible(p.a, p.i, p.b, p.j)) return;
      Choice partial(static_cast<std::size_t>(space_.size()), kOpen);
      partial[static_cast<std::size_t>(p.a)] = p.i;
      partial[static_cast<std::size_t>(p.b)] = p.j;
      const std::optional<Choice> found = space_.complete(partial);
      if (!found) return;
      each(*found, [](int& count) { count = 0; });
    });
  }

  const CaseSpace& space_;
  std::vector<std::size_t> offset_;
  std::vector<int> count_;
};

class Covering {
 public:
  Covering(const CaseSpace& space, std::uint64_t seed)
      : space_(space), pairs_(space), random_(seed, 2) {}

  std::vector<Choice> run(std::vector<Choice> given) {
    for (const Choice& choice : given) pairs_.add(choice, 1);
    std::vector<Choice> added;
    for (std::vector<Pair> open = pairs_.remaining(); !open.empty();
         open = pairs_.remaining()) {
      added.push_back(best_candidate(open));
      pairs_.add(added.back(), 1);
    }
    drop_redundant(added);
    given.insert(given.end(), added.begin(), added.end());
    return given;
  }

 private:
  int below(int count) {
    return static_cast<int>(std::uint64_t{random_.next()} *
                                static_cast<std::uint64_t>(count) >>
                            32);
  }

  Choice best_candidate(const std::vector<Pair>& open) {
    Choice best;
    int best_gain = -1;
    for (int c = 0; c < kCandidates; ++c) {
      Choice candidate = build(
          open[static_cast<std::size_t>(below(static_cast<int>(open.size())))]);
      int gain = 0;
      pairs_.each(candidate, [&gain](int& count) { gain += count == 0; });
      if (gain <= best_gain) continue;
      best_gain = gain;
      best = std::move(candidate);
    }
    return best;
  }

  // From one uncovered pair, parameter by parameter, each time the value that
  // covers most together with those already chosen.
  Choice build(const Pair& first) {
    Choice partial(static_cast<std::size_t>(space_.size()), kOpen);
    partial[static_cast<std::size_t>(first.a)] = first.i;
    partial[static_cast<std::size_t>(first.b)] = first.j;
    const Choice start = partial;
    Domains domains = *space_.narrow(partial);
    for (const int p : random_order()) {
      if (partial[static_cast<std::size_t>(p)] != kOpen) continue;
      // A dead end that narrowing did not see coming: rare.
      if (!choose_value(p, partial, domains)) return *space_.complete(start);
    }
    return *space_.complete(partial);  // throws what a constraint throws
  }

  std::vector<int> random_order() {
    std::vector<int> order(static_cast<std::size_t>(space_.size()));
    std::iota(order.begin(), order.end(), 0);
    for (int i = space_.size() - 1; i > 0; --i)
      std::swap(order[static_cast<std::size_t>(i)],
                order[static_cast<std::size_t>(below(i + 1))]);
    return order;
  }

  // Sets partial[p]; false where no value fits.
  bool choose_value(int p, Choice& partial, Domains& domains) {
    struct Ranked {
      int gain, later, tie, value;
    };
    std::vector<Ranked> ranked;
    for (int value = 0; value < space_.listed(p); ++value) {
      if (!(domains[static_cast<std::size_t>(p)] >> value & 1)) continue;
      Ranked r{0, 0, below(1 << 16), value};
      if (score(p, value, partial, &r.gain, &r.later)) ranked.push_back(r);
    }
    std::sort(ranked.begin(), ranked.end(),
              [](const Ranked& x, const Ranked& y) {
                if (x.gain != y.gain) return x.gain > y.gain;
                if (x.later != y.later) return x.later > y.later;
                return x.tie != y.tie ? x.tie < y.tie : x.value < y.value;
              });
    for (const Ranked& r : ranked) {
      Domains next = domains;
      if (!space_.choose(p, r.value, next)) continue;
      domains = std::move(next);
      partial[static_cast<std::size_t>(p)] = r.value;
      return true;
    }
    return false;
  }

  // New pairs with what is chosen, and those that wait for what is open;
  // false where the value cannot stand beside one that is chosen.
  bool score(int p, int value, const Choice& partial, int* gain, int* later) {
    for (int q = 0; q < space_.size(); ++q) {
      if (q == p) continue;
      const int other = partial[static_cast<std::size_t>(q)];
      if (other == kOpen) {
        for (int j = 0; j < space_.listed(q); ++j)
          *later += pairs_.uncovered(p, value, q, j);
      } else {
        if (!pairs_.possible(p, value, q, other)) return false;
        *gain += pairs_.uncovered(p, value, q, other);
      }
    }
    return true;
  }

  void drop_redundant(std::vector<Choice>& choices) {
    for (std::size_t i = choices.size(); i-- > 0;) {
      bool needed = false;
      pairs_.each(choices[i], [&needed](int& count) { needed |= count == 1; });
      if (needed) continue;
      pairs_.add(choices[i], -1);
      choices.erase(choices.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const CaseSpace& space_;
  Pairs pairs_;
  PhiloxStream random_;
};

// With one parameter there are no pairs, only values.
void cover_values(const CaseSpace& space, std::vector<Choice>& choices) {
  for (int value = 0; value < space.listed(0); ++value) {
    const Choice choice = {value};
    if (!std::count(choices.begin(), choices.end(), choice) &&
        space.complete(choice))
      choices.push_back(choice);
  }
}

}  // namespace

std::vector<Choice> cover_pairs(const CaseSpace& space,
                                std::vector<Choice> given, std::uint64_t seed) {
  if (space.size() == 0) return {Choice()};
  if (space.size() == 1) {
    cover_values(space, given);
    return given;
  }
  return Covering(space, seed).run(std::move(given));
}

}  // namespace assay::conform
