// Weights that are published in few bits, with scales beside them, as numbers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace meshwright {

// MXFP4 as in gpt-oss: numbers of 4 bits (e2m1), 32 of one scale, a power of two (2^(byte - 127);
// 255 is NaN). `blocks` [matrices, rows, groups, 16] bytes, the first number in a byte's lower
// half; `scales` [matrices, rows, groups] bytes. The weights are [matrices, 32 groups, rows]:
// turned, as the same model is published in 16 bits.
std::vector<float> from_mxfp4(std::string_view blocks, std::string_view scales,
                              std::int64_t matrices, std::int64_t rows, std::int64_t groups);

// FP8 as in DeepSeek-V3: `numbers` [rows, columns] in e4m3, of which 128 x 128 have one scale in
// fp32, [ceil(rows / 128), ceil(columns / 128)]: what they are multiplied by.
constexpr std::int64_t fp8_block = 128;
std::vector<float> from_fp8_blocks(std::string_view numbers, std::string_view scales,
                                   std::int64_t rows, std::int64_t columns);

}  // namespace meshwright
