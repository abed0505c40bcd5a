// Turns the failure of an MPI call into a RunError.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

#include "models/core/error.h"

namespace meshwright::exec {

inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RunError(std::string(call) + ": " + text);
}

}  // namespace meshwright::exec

#define MESHWRIGHT_MPI(call) ::meshwright::exec::check_mpi(call, #call)
