#include "assay/compare/align.h"

#include <algorithm>

namespace assay {
namespace {

using Pairs = std::vector<std::pair<std::int32_t, std::int32_t>>;

// The middle part of a problem whose common ends were cut off.
class Myers {
 public:
  Myers(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
        int max_edits)
      : a_(a),
        b_(b),
        n_(static_cast<int>(a.size())),
        m_(static_cast<int>(b.size())),
        max_edits_(std::min(max_edits, n_ + m_)) {}

  // Number of edits, -1 when more than max_edits are needed.
  int forward() {
    std::vector<int> x(2 * static_cast<std::size_t>(max_edits_) + 3, 0);
    const int zero = max_edits_ + 1;
    for (int d = 0; d <= max_edits_; ++d) {
      for (int k = -d; k <= d; k += 2) {
        const bool down =
            k == -d || (k != d && x[zero + k - 1] < x[zero + k + 1]);
        const int start = down ? x[zero + k + 1] : x[zero + k - 1] + 1;
        x[zero + k] = slide(start, k);
        if (x[zero + k] >= n_ && x[zero + k] - k >= m_) {
          return keep(x, d), d;
        }
      }
      keep(x, d);
    }
    return -1;
  }

  // Walks back from the end and lists the matches in reverse order.
  void backward(int edits, std::int32_t offset, Pairs& reversed) const {
    int x = n_;
    int y = m_;
    for (int d = edits; d > 0; --d) {
      const int k = x - y;
      const bool down =
          k == -d || (k != d && reach(d - 1, k - 1) < reach(d - 1, k + 1));
      const int before = down ? reach(d - 1, k + 1) : reach(d - 1, k - 1);
      const int previous_k = down ? k + 1 : k - 1;
      const int start = down ? before : before + 1;
      for (; x > start; --x, --y) {
        reversed.emplace_back(offset + x - 1, offset + y - 1);
      }
      x = before;
      y = before - previous_k;
    }
    for (; x > 0; --x, --y) {
      reversed.emplace_back(offset + x - 1, offset + y - 1);
    }
  }

 private:
  int slide(int x, int k) const {
    int y = x - k;
    if (y < 0) return x;
    while (x < n_ && y < m_ && a_[x] == b_[y]) ++x, ++y;
    return x;
  }

  // Round d fills diagonals -d..d; its row of the history has 2d + 1 cells.
  void keep(const std::vector<int>& x, int d) {
    const int zero = max_edits_ + 1;
    history_.emplace_back(x.begin() + zero - d, x.begin() + zero + d + 1);
  }
  int reach(int d, int k) const {
    if (k < -d || k > d) return -1;
    return history_[d][k + d];
  }

  std::span<const std::uint32_t> a_, b_;
  int n_, m_, max_edits_;
  std::vector<std::vector<int>> history_;
};

}  // namespace

std::optional<Pairs> align(std::span<const std::uint32_t> a,
                           std::span<const std::uint32_t> b, int max_edits) {
  const std::size_t shorter = std::min(a.size(), b.size());
  std::size_t head = 0;
  while (head < shorter && a[head] == b[head]) ++head;
  std::size_t tail = 0;
  while (tail < shorter - head &&
         a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) {
    ++tail;
  }
  Myers middle(a.subspan(head, a.size() - head - tail),
               b.subspan(head, b.size() - head - tail), max_edits);
  const int edits = middle.forward();
  if (edits < 0) return std::nullopt;

  Pairs pairs;
  pairs.reserve(shorter);
  for (std::size_t i = 0; i < head; ++i) pairs.emplace_back(i, i);
  Pairs reversed;
  middle.backward(edits, static_cast<std::int32_t>(head), reversed);
  pairs.insert(pairs.end(), reversed.rbegin(), reversed.rend());
  for (std::size_t i = tail; i > 0; --i) {
    pairs.emplace_back(a.size() - i, b.size() - i);
  }
  return pairs;
}

}  // namespace assay
