#!/usr/bin/env bash
# Runs a program as N processes on this machine, more than it has cores where
# asked: unbound, one thread each, and in containers and as root too. The
# variables are Open MPI's; other launchers do not read them.
# Usage: tools/mpirun.sh N PROGRAM [ARGUMENT...]
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: tools/mpirun.sh N PROGRAM [ARGUMENT...]" >&2
  exit 2
fi
ranks=$1
shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none
# Waiting ranks leave the core to those that work.
export OMPI_MCA_mpi_yield_when_idle=1
# Copying out of another process's memory is what containers forbid.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
exec "${MPIEXEC:-mpirun}" -n "$ranks" "$@"
