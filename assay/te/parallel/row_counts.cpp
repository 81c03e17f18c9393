#include "assay/te/parallel/row_counts.h"

#include <string>
#include <vector>

#include "assay/te/check.h"
#include "assay/te/splits.h"

namespace assay::te {
namespace {

void require_one_a_rank(std::string_view op, std::string_view argument,
                        std::span<const std::int64_t> counts, int ranks) {
  require(counts.size() == static_cast<std::size_t>(ranks), op, argument,
          std::to_string(counts.size()) + " counts",
          std::to_string(ranks) + ", one a rank");
}

std::vector<std::int64_t> of_all_ranks(std::span<const std::int64_t> own,
                                       Communicator& group) {
  std::vector<std::int64_t> all(own.size() * own.size());
  group.all_gather(std::as_bytes(own), std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace

void check_row_counts(std::string_view op, std::int64_t rows,
                      std::span<const std::int64_t> send_counts,
                      std::span<const std::int64_t> receive_counts, int ranks) {
  require_one_a_rank(op, "send_counts", send_counts, ranks);
  require_one_a_rank(op, "receive_counts", receive_counts, ranks);
  require_splits(op, "send_counts", send_counts, rows);
  total_of(op, "receive_counts", receive_counts);
}

void require_matching_counts(std::string_view op,
                             std::span<const std::int64_t> send_counts,
                             std::span<const std::int64_t> receive_counts,
                             Communicator& group) {
  const auto sent = of_all_ranks(send_counts, group);
  const auto received = of_all_ranks(receive_counts, group);
  const std::size_t n = send_counts.size();
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      const std::int64_t rows = sent[from * n + to];
      require(rows == received[to * n + from], op, "receive_counts",
              "rank " + std::to_string(to) + " receives " +
                  std::to_string(received[to * n + from]) + " rows from rank " +
                  std::to_string(from),
              std::to_string(rows) + ", which it sends");
    }
  }
}

}  // namespace assay::te
