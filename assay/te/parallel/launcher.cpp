#include <cstdlib>

#include "assay/te/parallel/communicator.h"

namespace assay::te {
namespace {

bool says_several(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::atoi(value) > 1;
}

}  // namespace

bool launched_by_mpi() {
  // Slurm counts tasks for a batch script too, which is one process: only
  // srun sets a rank, and MPI learns of it by PMI or PMIx.
  const bool by_slurm = std::getenv("SLURM_PROCID") != nullptr &&
                        (std::getenv("PMI_RANK") != nullptr ||
                         std::getenv("PMIX_RANK") != nullptr) &&
                        says_several("SLURM_NTASKS");
  return says_several("OMPI_COMM_WORLD_SIZE") || says_several("PMI_SIZE") ||
         by_slurm;
}

}  // namespace assay::te
