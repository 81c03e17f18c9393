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

// Bytes on their way; the buffers must live until wait() has returned, test()
// has said true, or the object is gone. Its destructor waits; where an
// exception is passing it gives the transfer up instead, for the other side
// may never come.
class PendingTransfer {
 public:
  virtual ~PendingTransfer() = default;
  // Throws Error{kUnreadable} where the other side sent another number of
  // bytes than was to be received.
  virtual void wait() = 0;
  // Moves the bytes on without waiting, and says whether all have arrived: a
  // transport without a thread of its own only works while it is called.
  virtual bool test() = 0;
};

// All calls are collective but exchange(): every rank of the group makes them
// in the same order, with sizes that agree; sizes are 64-bit, whatever the
// transport counts in. Not thread-safe: one call at a time, of all
// communicators of a process together. Arguments that cannot be are
// Error{kUsage}, failures of the transport and sizes that do not agree
// Error{kUnreadable}.
//
// A rank that throws leaves the others waiting for it. Under mpirun an
// exception that nobody catches, and an exit code other than 0, end all ranks
// (mpi_communicator()); what catches one has to do so on every rank, as checks
// that use require_same_everywhere() (collectives.h) make sure.
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
  // in bytes, size() entries each, which sum to those of the spans.
  virtual void all_to_all(std::span<const std::byte> from,
                          std::span<const std::int64_t> from_sizes,
                          std::span<std::byte> to,
                          std::span<const std::int64_t> to_sizes) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void barrier() = 0;

  // To one rank while receiving from another; what rings are made of. Either
  // span may be empty: then nothing goes to, or comes from, that side, and its
  // rank is not looked at. With oneself both have the same size.
  virtual std::unique_ptr<PendingTransfer> exchange(
      std::span<const std::byte> to_send, int destination,
      std::span<std::byte> to_receive, int source) = 0;

  // The sub-group of the ranks that give the same color, ordered by key and
  // then by rank. Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
};

// One process. Collectives copy, exchange() is with oneself.
std::shared_ptr<Communicator> self_communicator();

// Bytes of the longest message that is sent in one piece by default.
inline constexpr std::int64_t kMaxMessage = std::int64_t{1} << 30;

// All processes that mpirun started; a call is collective. The first one
// initialises MPI (MPI_THREAD_SERIALIZED) unless the program has done so
// itself. If it did, then MPI is finalised when the process ends with code 0,
// and MPI_Abort() ends every rank where the code is another one or an
// exception is not caught. Longer messages than max_message (1 to kMaxMessage)
// travel in pieces; every rank gives the same.
// Throws Error{kUsage} where the build has no MPI (mpi_available()).
std::shared_ptr<Communicator> mpi_communicator(
    std::int64_t max_message = kMaxMessage);
bool mpi_available();
// Whether a launcher started this process as one of several. Reads the
// environment variables of Open MPI, MPICH, Intel MPI and Slurm.
bool launched_by_mpi();

}  // namespace assay::te
