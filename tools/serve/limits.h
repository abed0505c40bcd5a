// What one client may take of the server.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace meshwright {

inline constexpr std::size_t most_body_bytes = 1'000'000;
inline constexpr std::size_t most_header_bytes = 32'768;
// From the connection to the last byte of the request.
inline constexpr std::chrono::seconds to_send_request{5};
// That a client may take none of an answer's bytes.
inline constexpr std::chrono::seconds to_take_answer{10};
// Of what the client still sends when it is answered, so that the answer reaches it.
inline constexpr std::size_t most_unread_bytes = 64'000'000;
inline constexpr std::chrono::seconds to_send_rest{5};

// More than may search and wait. Whoever comes then is answered still, in the place of a client
// that lets the server wait (crowd.h): for the moments that this takes there are a few more
// threads.
inline constexpr int most_connections = 64;
inline constexpr int more_threads = 8;
// Each search uses all cores; as many run at once as there are cores, but no more than these.
inline constexpr int most_running = 8;
// Of one search, once it has begun.
inline constexpr std::chrono::seconds to_search{600};
// What a search may print.
inline constexpr std::size_t most_answer_bytes = 256'000'000;
// Searches that wait for each one that runs.
inline constexpr int waiting_per_running = 4;

}  // namespace meshwright
