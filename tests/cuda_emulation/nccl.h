// Replaces NCCL's header by what exec/comm/nccl uses of it, over MPI (nccl.cpp). An operation is
// work of its stream that may have to wait for other ranks, while the other streams continue. A
// rank takes part only while its host waits for its own streams or asks about them. So a host must
// not wait for another rank's host before its own work is done. Operations that do not match never
// end, as in NCCL.
#pragma once

#include <climits>
#include <cstddef>

#include "tests/cuda_emulation/cuda_runtime.h"

#define MESHWRIGHT_EMULATED_NCCL
#define NCCL_VERSION_CODE 22809
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_CONFIG_INITIALIZER \
  { INT_MIN, INT_MIN }

using ncclComm_t = struct ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  int blocking, maxCTAs;
};
enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclRedOp_t { ncclSum = 0, ncclMax = 2 };
enum ncclDataType_t {
  ncclUint8 = 1,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};
using ncclWindow_t = struct ncclWindow_vidmem*;
#define NCCL_WIN_COLL_SYMMETRIC 0x01

ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclMemAlloc(void** address, std::size_t bytes);
ncclResult_t ncclMemFree(void* address);

// Every member of the communicator must call ncclCommWindowRegister(). It returns
// ncclInvalidArgument if the members give different numbers of bytes, if the window is not
// symmetric, or if the memory is not from ncclMemAlloc(). Windows must be deregistered before the
// communicator ends.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes,
                                    ncclWindow_t* window, int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);

ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

namespace emulated {
// Makes every communicator of this process report the asynchronous error from now on.
void break_nccl(ncclResult_t error);
int nccl_windows();  // returns how many windows this process has open
}  // namespace emulated
