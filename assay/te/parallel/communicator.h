// A group of processes that work on one model, and how they exchange tensors.
//
// Everything that communicates takes a Communicator and knows nothing of what
// carries the bytes: this process alone, MPI, or a callback of the caller's.
// The primitives move bytes; sums are formed here (collectives.h), in the
// order of the ranks, so that a result depends neither on the transport nor on
// an algorithm it chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace assay::te {

// Bytes on their way; the buffers must live until wait() has returned.
class PendingTransfer {
 public:
  virtual ~PendingTransfer() = default;  // waits
  virtual void wait() = 0;
};

// All calls are collective but send/receive/exchange: every rank of the group
// makes them in the same order, with sizes that agree. Not thread-safe: one
// thread per communicator. Transport failures are Error{kUnreadable}.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view name() const = 0;  // "self", "mpi" ...

  // to = the `from` of rank 0, of rank 1 ...; to.size() = size * from.size().
  virtual void all_gather(std::span<const std::byte> from,
                          std::span<std::byte> to) = 0;
  // Block r of `from` goes to rank r; block r of `to` comes from rank r. Sizes
  // in bytes, size() entries each; 64-bit, whatever the transport counts in.
  virtual void all_to_all(std::span<const std::byte> from,
                          std::span<const std::int64_t> from_sizes,
                          std::span<std::byte> to,
                          std::span<const std::int64_t> to_sizes) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void barrier() = 0;

  // To one rank while receiving from another; what rings are made of. Either
  // span may be empty.
  virtual std::unique_ptr<PendingTransfer> exchange(
      std::span<const std::byte> to_send, int destination,
      std::span<std::byte> to_receive, int source) = 0;

  // The sub-group of the ranks that give the same color, ordered by key and
  // then by rank. Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
};

// One process. Collectives copy, exchange() is with oneself.
std::shared_ptr<Communicator> self_communicator();

// All processes that mpirun started. Initialises MPI at the first call and
// finalises it when the process ends. Throws Error{kUsage} where the build has
// no MPI (mpi_available()).
std::shared_ptr<Communicator> mpi_communicator();
bool mpi_available();
// Whether a launcher started this process as one of several.
bool launched_by_mpi();

}  // namespace assay::te
