// Converts weights that are published in few bits, with scales stored next to them, to fp32.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace meshwright::exec {

// Returns in fp32 the values of weights in MXFP4, as in gpt-oss. 32 elements of 4 bits (e2m1) share
// one scale, 2^(byte - 127), or NaN if the byte is 255. `blocks` is [matrices, rows, groups, 16]
// bytes, with the first of two elements in a byte's lower half. `scales` is [matrices, rows,
// groups] bytes. The result is [matrices, 32 * groups, rows]: transposed, as the same model is
// published in 16 bits.
std::vector<float> from_mxfp4(std::string_view blocks, std::string_view scales,
                              std::int64_t matrices, std::int64_t rows, std::int64_t groups);

// from_fp8_blocks() returns in fp32 the values of weights in FP8, as in DeepSeek-V3. `numbers` is
// [rows, columns] in e4m3. Each block of 128 x 128 elements is multiplied by its fp32 scale.
// `scales` is [ceil(rows / 128), ceil(columns / 128)].
constexpr std::int64_t fp8_block = 128;
std::vector<float> from_fp8_blocks(std::string_view numbers, std::string_view scales,
                                   std::int64_t rows, std::int64_t columns);

}  // namespace meshwright::exec
