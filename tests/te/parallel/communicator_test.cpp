#include <gmock/gmock.h>

#include <cstring>

#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

std::vector<std::byte> bytes_of(int seed, std::size_t n) {
  std::vector<std::byte> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<std::byte>(seed * 31 + static_cast<int>(i) * 7 + 1);
  return out;
}

// The transport under test with messages in one piece, and in pieces of 7
// bytes: what a message of more than 2^31 bytes goes through.
std::vector<std::shared_ptr<Communicator>> transports() {
  std::vector<std::shared_ptr<Communicator>> out = {group()};
  if (launched_by_mpi()) out.push_back(mpi_communicator(7));
  return out;
}

TEST(Transport, Names) {
  EXPECT_EQ(group()->name(), launched_by_mpi() ? "mpi" : "self");
  EXPECT_LT(rank(), ranks());
}

TEST(Transport, AllGather) {
  for (const auto& g : transports()) {
    for (const std::size_t n : {0u, 1u, 7u, 14u, 15u, 2000u}) {
      std::vector<std::byte> expected,
          to(n * static_cast<std::size_t>(ranks()));
      for (int r = 0; r < ranks(); ++r) {
        const auto part = bytes_of(r, n);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      g->all_gather(bytes_of(rank(), n), to);
      EXPECT_EQ(to, expected) << n;
    }
  }
}

TEST(Transport, AllGatherOfAMegabyte) {
  constexpr std::size_t kBytes = (1 << 20) + 3;
  std::vector<std::byte> to(kBytes * static_cast<std::size_t>(ranks()));
  group()->all_gather(bytes_of(rank(), kBytes), to);
  for (int r = 0; r < ranks(); ++r) {
    const auto part =
        std::span(to).subspan(static_cast<std::size_t>(r) * kBytes, kBytes);
    const auto expected = bytes_of(r, kBytes);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin())) << r;
  }
}

// From r to s go 5 r + 3 s bytes, none from 0 to 0; in order of the ranks.
TEST(Transport, AllToAllOfUnequalBlocks) {
  for (const auto& g : transports()) {
    std::vector<std::int64_t> sent, received;
    std::vector<std::byte> from, expected;
    for (int r = 0; r < ranks(); ++r) {
      sent.push_back(5 * rank() + 3 * r);
      received.push_back(5 * r + 3 * rank());
      const auto out =
          bytes_of(rank() * 10 + r, static_cast<std::size_t>(sent.back()));
      const auto in =
          bytes_of(r * 10 + rank(), static_cast<std::size_t>(received.back()));
      from.insert(from.end(), out.begin(), out.end());
      expected.insert(expected.end(), in.begin(), in.end());
    }
    std::vector<std::byte> to(expected.size());
    g->all_to_all(from, sent, to, received);
    EXPECT_EQ(to, expected);
  }
}

TEST(Transport, BroadcastFromEveryRank) {
  for (const auto& g : transports()) {
    for (int root = 0; root < ranks(); ++root) {
      for (const std::size_t n : {0u, 3u, 1000u}) {
        auto bytes = bytes_of(rank(), n);
        g->broadcast(bytes, root);
        EXPECT_EQ(bytes, bytes_of(root, n)) << root;
      }
    }
    g->barrier();
  }
}

TEST(Transport, ExchangeAroundTheRing) {
  const int next = (rank() + 1) % ranks();
  const int previous = (rank() + ranks() - 1) % ranks();
  for (const auto& g : transports()) {
    const auto from = bytes_of(rank(), 5000);
    std::vector<std::byte> to(5000), small(9);
    const auto large = g->exchange(from, next, to, previous);
    // Another transfer and a collective while the first is on its way.
    const auto second =
        g->exchange(std::span(from).first(9), next, small, previous);
    std::vector<std::byte> all(static_cast<std::size_t>(ranks()));
    g->all_gather(std::span(from).first(1), all);
    while (!second->test()) {
    }
    large->wait();
    EXPECT_TRUE(large->test());
    EXPECT_EQ(to, bytes_of(previous, 5000));
    const auto expected = bytes_of(previous, 5000);
    EXPECT_TRUE(std::equal(small.begin(), small.end(), expected.begin()));
  }
}

// A chain: the first rank only sends, the last only receives.
TEST(Transport, ExchangeOneWay) {
  if (ranks() == 1) GTEST_SKIP() << "nobody to send to";
  for (const auto& g : transports()) {
    std::vector<std::byte> to(rank() > 0 ? 20u : 0u);
    const auto from = bytes_of(rank(), rank() + 1 < ranks() ? 20 : 0);
    g->exchange(from, rank() + 1, to, rank() - 1)->wait();
    if (rank() > 0) {
      EXPECT_EQ(to, bytes_of(rank() - 1, 20));
    }
  }
}

TEST(Transport, SplitsByColorAndOrdersByKey) {
  for (const auto& g : transports()) {
    // Negative colors are colors too; keys turn the order around.
    const auto half = g->split(rank() % 2 == 0 ? -5 : 7, -rank());
    const int evens = (ranks() + 1) / 2;
    const int members = rank() % 2 == 0 ? evens : ranks() - evens;
    ASSERT_EQ(half->size(), members);
    EXPECT_EQ(half->rank(), members - 1 - rank() / 2);
    std::vector<int> world(static_cast<std::size_t>(members));
    const int own = rank();
    half->all_gather(std::as_bytes(std::span(&own, 1)),
                     std::as_writable_bytes(std::span(world)));
    for (int i = 0; i < members; ++i)
      EXPECT_EQ(world[static_cast<std::size_t>(i)],
                2 * (members - 1 - i) + rank() % 2);
  }
}

TEST(Transport, ArgumentsAreChecked) {
  std::vector<std::byte> two(2);
  const std::vector<std::int64_t> wrong(static_cast<std::size_t>(ranks()) + 1);
  std::vector<std::int64_t> negative(static_cast<std::size_t>(ranks()));
  negative[0] = -1;
  Communicator& g = *group();
  EXPECT_THAT(error_of([&] { g.all_gather(two, std::span(two).first(1)); }),
              HasSubstr("all_gather: to: 1 bytes, expected"));
  EXPECT_THAT(error_of([&] { g.all_to_all({}, wrong, {}, wrong); }),
              HasSubstr("all_to_all: from: "));
  EXPECT_THAT(error_of([&] { g.all_to_all({}, negative, {}, negative); }),
              HasSubstr("all_to_all: from"));
  EXPECT_THAT(error_of([&] { g.broadcast(two, ranks()); }),
              HasSubstr("broadcast: root: "));
  EXPECT_THAT(error_of([&] { g.exchange(two, -1, two, rank()); }),
              HasSubstr("exchange: destination: -1, expected a rank in [0, "));
}

TEST(Transport, SizesThatDoNotAgreeAreErrors) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  for (const std::int64_t limit : {kMaxMessage, std::int64_t{7}}) {
    // Left-over messages stay in a communicator of their own.
    const auto g = mpi_communicator(limit);
    const std::size_t n = rank() == 1 ? 4 : 5;
    std::vector<std::byte> to(n * static_cast<std::size_t>(ranks()));
    try {
      g->all_gather(bytes_of(0, n), to);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUnreadable) << error.what();
    }
    group()->barrier();
  }
}

TEST(Transport, MpiSaysWhatItWants) {
  if (!mpi_available()) {
    EXPECT_THAT(error_of([] { mpi_communicator(); }), HasSubstr("no MPI"));
    return;
  }
  for (const std::int64_t limit : {std::int64_t{0}, kMaxMessage + 1})
    EXPECT_THAT(
        error_of([&] { mpi_communicator(limit); }),
        HasSubstr("mpi_communicator: max_message: " + std::to_string(limit)));
}

// Run by name, each as a job of its own: the job must end, and say why.
TEST(Ending, DISABLED_OneRankThrows) {
  if (rank() == 1) throw Error(Code::kUsage, "rank 1 gives up");
  group()->barrier();
}
TEST(Ending, DISABLED_OneRankExits) {
  if (rank() == 1) std::exit(3);
  group()->barrier();
}

}  // namespace
}  // namespace assay::te
