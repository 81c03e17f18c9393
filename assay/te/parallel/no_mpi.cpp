// Compiled in place of mpi_*.cpp where CMake found no MPI.
#include "assay/base/error.h"
#include "assay/te/parallel/communicator.h"

namespace assay::te {

bool mpi_available() { return false; }

std::shared_ptr<Communicator> mpi_communicator(std::int64_t) {
  throw Error(Code::kUsage,
              "mpi_communicator: this build has no MPI; install an MPI for C "
              "(Debian: libopenmpi-dev openmpi-bin) and configure again");
}

}  // namespace assay::te
