#include "assay/te/parallel/mpi_session.h"

#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "assay/base/error.h"

namespace assay::te {
namespace {

// A forked child must not end the job of its parent.
pid_t owner = 0;

void abort_all(int status) {
  std::fflush(nullptr);
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "rank %d ends the job with status %d\n", rank, status);
  MPI_Abort(MPI_COMM_WORLD, status);
}

// A rank that returns an error leaves the others in a call that will never
// end, and MPI_Finalize() would wait for them: the job is ended instead.
void end_mpi(int status, void*) {
  if (getpid() != owner || mpi_is_over()) return;
  if (status != 0) abort_all(status);
  MPI_Finalize();
}

[[noreturn]] void end_all_ranks() {
  if (const auto e = std::current_exception()) {
    try {
      std::rethrow_exception(e);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "uncaught: %s\n", error.what());
    } catch (...) {
      std::fputs("uncaught exception\n", stderr);
    }
  }
  if (getpid() == owner && !mpi_is_over()) abort_all(1);
  std::abort();
}

void require_serialized(int level) {
  if (level >= MPI_THREAD_SERIALIZED) return;
  throw Error(Code::kUsage,
              "mpi_communicator: MPI was initialised with thread level " +
                  std::to_string(level) +
                  ", expected MPI_THREAD_SERIALIZED or better");
}

void initialise() {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level),
            "MPI_Init_thread");
  owner = getpid();
  on_exit(end_mpi, nullptr);
  std::set_terminate(end_all_ranks);
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
            "MPI_Comm_set_errhandler");
  require_serialized(level);
}

bool start() {
  int initialised = 0;
  check_mpi(MPI_Initialized(&initialised), "MPI_Initialized");
  if (!initialised) {
    initialise();
  } else {
    int level = MPI_THREAD_SINGLE;
    check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
    require_serialized(level);
  }
  return true;
}

}  // namespace

bool mpi_is_over() {
  int finalised = 0;
  return MPI_Finalized(&finalised) != MPI_SUCCESS || finalised != 0;
}

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(Code::kUnreadable, std::string(call) + ": " + text);
}

void start_mpi() {
  if (mpi_is_over())
    throw Error(Code::kUsage, "mpi_communicator: MPI is finalised");
  [[maybe_unused]] static const bool started = start();
}

}  // namespace assay::te
