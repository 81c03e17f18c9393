// MPI as long as the process lives: started once, ended with it.
#pragma once

namespace assay::te {

// Initialises MPI unless the program has. Throws Error{kUsage} where MPI gives
// less than MPI_THREAD_SERIALIZED, or has been finalised already. Thread-safe.
void start_mpi();
// Whether handles must not be touched any more.
bool mpi_is_over();
// Throws Error{kUnreadable} with MPI's text for any code but MPI_SUCCESS.
void check_mpi(int code, const char* call);

}  // namespace assay::te
