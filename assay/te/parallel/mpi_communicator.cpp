#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "assay/te/check.h"
#include "assay/te/parallel/communicator.h"
#include "assay/te/parallel/mpi_session.h"
#include "assay/te/parallel/transfer_checks.h"

namespace assay::te {
namespace {

// Point-to-point messages carry everything: counts stay below 2^31 in pieces,
// and a receiver sees a sender's size, which MPI's collectives do not compare.
enum Tag : int { kCollective = 1, kExchange = 2 };

struct Link {
  MPI_Comm comm;
  std::int64_t max_message;
};

class MpiTransfer : public PendingTransfer {
 public:
  MpiTransfer(const Link& link, Tag tag) : link_(link), tag_(tag) {}
  ~MpiTransfer() override {
    if (mpi_is_over()) return;
    try {
      if (std::uncaught_exceptions() == 0) wait();
    } catch (...) {
    }
    give_up();
  }
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;

  void send(std::span<const std::byte> bytes, int to) {
    for_pieces(bytes, [&](std::span<const std::byte> piece) {
      pieces_.push_back({MPI_REQUEST_NULL, -1, to});
      check_mpi(
          MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, to,
                    tag_, link_.comm, &pieces_.back().request),
          "MPI_Isend");
    });
  }

  void receive(std::span<std::byte> bytes, int from) {
    for_pieces(bytes, [&](std::span<std::byte> piece) {
      const int count = static_cast<int>(piece.size());
      pieces_.push_back({MPI_REQUEST_NULL, count, from});
      check_mpi(MPI_Irecv(piece.data(), count, MPI_BYTE, from, tag_, link_.comm,
                          &pieces_.back().request),
                "MPI_Irecv");
    });
  }

  void wait() override {
    while (done_ < pieces_.size()) {
      Piece& piece = pieces_[done_++];
      MPI_Status status;
      check_mpi(MPI_Wait(&piece.request, &status), "MPI_Wait");
      check_count(piece, status);
    }
  }

  bool test() override {
    while (done_ < pieces_.size()) {
      Piece& piece = pieces_[done_];
      MPI_Status status;
      int arrived = 0;
      const int code = MPI_Test(&piece.request, &arrived, &status);
      if (code != MPI_SUCCESS || arrived) ++done_;
      check_mpi(code, "MPI_Test");
      if (!arrived) return false;
      check_count(piece, status);
    }
    return true;
  }

 private:
  struct Piece {
    MPI_Request request;
    int expected;  // bytes to receive; -1: sent
    int peer;
  };

  // At least one piece, an empty one: sizes that differ are found even where
  // one of them is 0.
  template <typename Byte, typename Body>
  void for_pieces(std::span<Byte> bytes, const Body& body) {
    const auto limit = static_cast<std::size_t>(link_.max_message);
    do {
      const std::size_t n = std::min(bytes.size(), limit);
      body(bytes.first(n));
      bytes = bytes.subspan(n);
    } while (!bytes.empty());
  }

  void check_count(const Piece& piece, const MPI_Status& status) const {
    if (piece.expected < 0) return;
    int count = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    if (count == piece.expected) return;
    throw Error(Code::kUnreadable,
                "transfer: rank " + std::to_string(piece.peer) + " sent " +
                    std::to_string(count) + " bytes, expected " +
                    std::to_string(piece.expected));
  }

  // Receives are taken back, so that nothing writes into buffers that are
  // about to go; a send cannot be.
  void give_up() {
    for (; done_ < pieces_.size(); ++done_) {
      Piece& piece = pieces_[done_];
      if (piece.request == MPI_REQUEST_NULL) continue;
      if (piece.expected < 0) {
        MPI_Request_free(&piece.request);
      } else {
        MPI_Cancel(&piece.request);
        MPI_Wait(&piece.request, MPI_STATUS_IGNORE);
      }
    }
  }

  Link link_;
  Tag tag_;
  std::vector<Piece> pieces_;
  std::size_t done_ = 0;
};

class MpiCommunicator : public Communicator {
 public:
  // Takes the communicator over.
  explicit MpiCommunicator(const Link& link) : link_(link) {
    check_mpi(MPI_Comm_set_errhandler(link_.comm, MPI_ERRORS_RETURN),
              "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(link_.comm, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(link_.comm, &size_), "MPI_Comm_size");
  }
  ~MpiCommunicator() override {
    if (!mpi_is_over()) MPI_Comm_free(&link_.comm);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return "mpi"; }

  void all_gather(std::span<const std::byte> from,
                  std::span<std::byte> to) override {
    check_all_gather(from.size(), to.size(), size_);
    const std::size_t n = from.size();
    const auto block = [&](int r) {
      return to.subspan(static_cast<std::size_t>(r) * n, n);
    };
    MpiTransfer transfer(link_, kCollective);
    for (int i = 1; i < size_; ++i) {
      const int r = (rank_ + size_ - i) % size_;
      transfer.receive(block(r), r);
    }
    for (int i = 1; i < size_; ++i) transfer.send(from, (rank_ + i) % size_);
    if (n > 0) std::memcpy(block(rank_).data(), from.data(), n);
    transfer.wait();
  }

  void all_to_all(std::span<const std::byte> from,
                  std::span<const std::int64_t> from_sizes,
                  std::span<std::byte> to,
                  std::span<const std::int64_t> to_sizes) override {
    check_block_sizes("from", from_sizes, from.size(), size_);
    check_block_sizes("to", to_sizes, to.size(), size_);
    const auto self = static_cast<std::size_t>(rank_);
    require(from_sizes[self] == to_sizes[self], "all_to_all", "to",
            std::to_string(to_sizes[self]) + " bytes from this rank itself",
            std::to_string(from_sizes[self]));
    const auto from_at = block_offsets(from_sizes);
    const auto to_at = block_offsets(to_sizes);
    MpiTransfer transfer(link_, kCollective);
    for (int i = 1; i < size_; ++i) {
      const auto r = static_cast<std::size_t>((rank_ + size_ - i) % size_);
      transfer.receive(
          to.subspan(to_at[r], static_cast<std::size_t>(to_sizes[r])),
          static_cast<int>(r));
    }
    for (int i = 1; i < size_; ++i) {
      const auto r = static_cast<std::size_t>((rank_ + i) % size_);
      transfer.send(
          from.subspan(from_at[r], static_cast<std::size_t>(from_sizes[r])),
          static_cast<int>(r));
    }
    if (from_sizes[self] > 0)
      std::memcpy(to.data() + to_at[self], from.data() + from_at[self],
                  static_cast<std::size_t>(from_sizes[self]));
    transfer.wait();
  }

  // A binomial tree: the rank that is `place` after the root receives from the
  // place without its lowest bit, and sends to those with one bit lower set.
  void broadcast(std::span<std::byte> bytes, int root) override {
    check_rank("broadcast", "root", root, size_);
    const int place = (rank_ + size_ - root) % size_;
    const auto rank_at = [&](int p) { return (p + root) % size_; };
    int bit = 1;
    while (bit < size_ && (place & bit) == 0) bit <<= 1;
    if (place != 0) {
      MpiTransfer transfer(link_, kCollective);
      transfer.receive(bytes, rank_at(place & ~bit));
      transfer.wait();
    }
    MpiTransfer transfer(link_, kCollective);
    for (bit >>= 1; bit > 0; bit >>= 1)
      if (place + bit < size_) transfer.send(bytes, rank_at(place + bit));
    transfer.wait();
  }

  void barrier() override { check_mpi(MPI_Barrier(link_.comm), "MPI_Barrier"); }

  std::unique_ptr<PendingTransfer> exchange(std::span<const std::byte> to_send,
                                            int destination,
                                            std::span<std::byte> to_receive,
                                            int source) override {
    auto transfer = std::make_unique<MpiTransfer>(link_, kExchange);
    if (!to_receive.empty()) {
      check_rank("exchange", "source", source, size_);
      transfer->receive(to_receive, source);
    }
    if (!to_send.empty()) {
      check_rank("exchange", "destination", destination, size_);
      transfer->send(to_send, destination);
    }
    return transfer;
  }

  // MPI takes colors from 0 on: each becomes its place among those given.
  std::unique_ptr<Communicator> split(int color, int key) override {
    std::vector<int> colors(static_cast<std::size_t>(size_));
    all_gather(std::as_bytes(std::span(&color, 1)),
               std::as_writable_bytes(std::span(colors)));
    std::sort(colors.begin(), colors.end());
    colors.erase(std::unique(colors.begin(), colors.end()), colors.end());
    const auto place =
        std::lower_bound(colors.begin(), colors.end(), color) - colors.begin();
    Link part{MPI_COMM_NULL, link_.max_message};
    check_mpi(
        MPI_Comm_split(link_.comm, static_cast<int>(place), key, &part.comm),
        "MPI_Comm_split");
    return std::make_unique<MpiCommunicator>(part);
  }

 private:
  Link link_;
  int rank_ = 0, size_ = 1;
};

}  // namespace

bool mpi_available() { return true; }

std::shared_ptr<Communicator> mpi_communicator(std::int64_t max_message) {
  require(max_message > 0 && max_message <= kMaxMessage, "mpi_communicator",
          "max_message", std::to_string(max_message),
          "1 to " + std::to_string(kMaxMessage));
  start_mpi();
  Link world{MPI_COMM_NULL, max_message};
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world.comm), "MPI_Comm_dup");
  return std::make_shared<MpiCommunicator>(world);
}

}  // namespace assay::te
