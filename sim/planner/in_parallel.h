// Pieces of work that know nothing of each other, on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace meshwright {

// Calls `work` with 0 to count - 1, each once, and with the number of the thread that does it, from
// 0. Of what is thrown, the first piece's is thrown again.
void in_parallel(std::size_t count, int threads,
                 const std::function<void(std::size_t piece, std::size_t thread)>& work);

}  // namespace meshwright
