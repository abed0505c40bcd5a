// Compares the emulated tensor core instructions with the layouts of the PTX ISA manual: "Matrix
// Fragments for mma.m16n8k16 with floating point type", "ldmatrix", "cp.async".
#include "exec/backends/cuda/attention/mma.cuh"

#include "exec/backends/cuda/device/launch.h"
#include "tests/catch.h"

using namespace meshwright::exec::cuda;

namespace {

// These functions return small whole numbers, which are exact in every type.
float a_at(int row, int column) { return static_cast<float>((row * 5 + column * 3) % 13 - 6); }
float b_at(int row, int column) { return static_cast<float>((row * 7 + column) % 11 - 5); }
float d_at(int row, int column) { return static_cast<float>(row - 2 * column); }

bool right;  // any lane that sees another value sets it to false

// Multiplies two tiles. groupID, threadID_in_group, row and column of element i are the manual's
// words.
template <typename T>
void multiply() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int groupID = lane >> 2, threadID_in_group = lane % 4;
  unsigned int a[4] = {}, b[2] = {};
  for (int i = 0; i < 8; ++i) {
    const int row = (0 <= i && i < 2) || (4 <= i && i < 6) ? groupID : groupID + 8;
    const int column = threadID_in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
    T element;
    narrow(a_at(row, column), element);
    a[i / 2] |= static_cast<unsigned int>(element.bits) << i % 2 * 16;
  }
  for (int i = 0; i < 4; ++i) {
    const int row = threadID_in_group * 2 + (i & 1) + (i < 2 ? 0 : 8);
    T element;
    narrow(b_at(row, groupID), element);
    b[i / 2] |= static_cast<unsigned int>(element.bits) << i % 2 * 16;
  }
  float d[4];
  for (int turn = 1; turn <= 2; ++turn) {
    for (int i = 0; i < 4; ++i)
      if (turn == 1) d[i] = d_at(i < 2 ? groupID : groupID + 8, threadID_in_group * 2 + (i & 1));
    mma_16x8x16<T>(d, a, b);
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? groupID : groupID + 8, column = threadID_in_group * 2 + (i & 1);
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a_at(row, k) * b_at(k, column);
      right = right && d[i] == d_at(row, column) + static_cast<float>(turn) * sum;
    }
  }
}

// Loads matrices whose rows of 16 bytes may be anywhere: here 24 bytes apart, in a scrambled order.
void load_matrices() {
  auto* const shared = reinterpret_cast<unsigned short*>(shared_memory());
  const int lane = static_cast<int>(threadIdx.x);
  const auto row_at = [&](int matrix, int row) {
    return shared + (matrix * 8 + row) * 5 % 32 * 12;
  };
  for (int column = 0; column < 8; ++column)
    row_at(lane / 8, lane % 8)[column] = static_cast<unsigned short>(lane * 8 + column);
  __syncwarp();
  unsigned int plain[4], transposed[4];
  load_matrix_x4(plain, row_at(lane / 8, lane % 8));
  load_matrix_x4_transposed(transposed, row_at(lane / 8, lane % 8));
  for (int matrix = 0; matrix < 4; ++matrix) {
    const auto at = [&](int row, int column) {
      return static_cast<unsigned int>((matrix * 8 + row) * 8 + column);
    };
    const int g = lane / 4, t = lane % 4;
    right = right && plain[matrix] == (at(g, 2 * t) | at(g, 2 * t + 1) << 16U);
    right = right && transposed[matrix] == (at(2 * t, g) | at(2 * t + 1, g) << 16U);
  }
}

// Compares the instructions with the functions that replace them, in which lanes exchange values
// themselves, on random numbers.
template <typename T>
void both_forms() {
  auto random = [word = threadIdx.x * 2654435761u + 1]() mutable {
    word = word * 1664525u + 1013904223u;
    T element;
    narrow(static_cast<float>(word >> 8) * 0x1p-23f - 1.0f, element);
    return element.bits;
  };
  const auto pair = [&random] { return random() | static_cast<unsigned int>(random()) << 16; };
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto* const own = reinterpret_cast<unsigned int*>(shared_memory() + threadIdx.x * 16);
  for (int i = 0; i < 4; ++i) own[i] = pair();
  __syncwarp();
  const unsigned char* const row = shared_memory() + (threadIdx.x - lane + lane * 11 % 32) * 16;
  unsigned int a[4], lanes_a[4], transposed[4], lanes_transposed[4];
  load_matrix_x4(a, row);
  by_lanes::load_matrix_x4(lanes_a, row);
  load_matrix_x4_transposed(transposed, row);
  by_lanes::load_matrix_x4_transposed(lanes_transposed, row);
  const unsigned int b[2] = {pair(), pair()};
  float d[4] = {1, 2, 3, 4}, lanes_d[4] = {1, 2, 3, 4};
  mma_16x8x16<T>(d, a, b);
  by_lanes::mma_16x8x16<T>(lanes_d, a, b);
  for (int i = 0; i < 4; ++i) {
    right = right && a[i] == lanes_a[i] && transposed[i] == lanes_transposed[i];
    right = right && std::fabs(d[i] - lanes_d[i]) < 1e-5f;  // sums of 16 products below 1
  }
}

void copy_by_lanes(const float* from) {
  float* const shared = reinterpret_cast<float*>(shared_memory()) + 12 * threadIdx.x;
  by_lanes::copy_async_16(shared, from, true);
  by_lanes::copy_async_4(shared + 4, from + 4, true);
  by_lanes::copy_async_16(shared + 8, nullptr, false);
  by_lanes::copy_async_4(shared + 5, nullptr, false);
  right = right && shared[0] == 1 && shared[3] == 4 && shared[4] == 5;
  right = right && shared[5] == 0 && shared[8] == 0 && shared[11] == 0;
}

void copy_late(const float* from) {
  float* const shared = reinterpret_cast<float*>(shared_memory()) + 12 * threadIdx.x;
  copy_async_16(shared, from, true);
  copies_commit();
  copy_async_4(shared + 4, from + 4, true);
  copy_async_16(shared + 8, from, false);
  copies_commit();
  right = right && std::isnan(shared[0]) && std::isnan(shared[4]) && std::isnan(shared[8]);
  copies_wait<1>();
  right = right && shared[0] == 1 && shared[3] == 4 && std::isnan(shared[4]);
  copies_wait<0>();
  right = right && shared[4] == 5 && shared[8] == 0 && shared[11] == 0;
}

template <typename... Parameters, typename... Arguments>
bool holds(void (*kernel)(Parameters...), unsigned int threads, Arguments... arguments) {
  right = true;
  launch(kernel, {1}, {threads}, 4096, nullptr, arguments...);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return right;
}

}  // namespace

TEST_CASE("products of tiles have the fragments of the PTX manual", "[exec][cuda]") {
  CHECK(holds(multiply<f16>, 64));
  CHECK(holds(multiply<bf16>, 64));
}

TEST_CASE("matrices are loaded in the layout of the PTX manual", "[exec][cuda]") {
  CHECK(holds(load_matrices, 32));
}

TEST_CASE("lanes do by themselves what the instructions do", "[exec][cuda]") {
  CHECK(holds(both_forms<f16>, 64));
  CHECK(holds(both_forms<bf16>, 64));
}

TEST_CASE("a GPU without tensor cores for these tiles has the same layouts", "[exec][cuda]") {
  const emulated::OtherHardware v100({.major = 7});
  CHECK(holds(multiply<f16>, 64));
  CHECK(holds(multiply<bf16>, 64));
  CHECK(holds(load_matrices, 32));
}

TEST_CASE("what is copied in the background is there when it was waited for", "[exec][cuda]") {
  float* from = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&from), 5 * sizeof(float)), "cudaMalloc");
  const float numbers[] = {1, 2, 3, 4, 5};
  check(cudaMemcpy(from, numbers, sizeof numbers, cudaMemcpyHostToDevice), "cudaMemcpy");
  CHECK(holds(copy_late, 33, static_cast<const float*>(from)));
  CHECK(holds(copy_by_lanes, 33, static_cast<const float*>(from)));
  check(cudaFree(from), "cudaFree");
}

TEST_CASE("two numbers are packed with the first one below", "[exec][cuda]") {
  CHECK(packed<f16>(1, -2) == 0xC0003C00);
  CHECK(packed<bf16>(1, -2) == 0xC0003F80);
}
