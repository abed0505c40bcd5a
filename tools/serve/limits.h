// Limits what one client may take of the server.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace meshwright {

inline constexpr std::size_t most_body_bytes = 1'000'000;
inline constexpr std::size_t most_header_bytes = 32'768;
// The longest time from the connection to the last byte of the request.
inline constexpr std::chrono::seconds to_send_request{5};
// The longest time in which a client may take none of the response's bytes.
inline constexpr std::chrono::seconds to_take_answer{10};
// The limits, in bytes and time, on reading what the client still sends after its response. Reading
// it lets the response reach the client.
inline constexpr std::size_t most_unread_bytes = 64'000'000;
inline constexpr std::chrono::seconds to_send_rest{5};

// The most connections at once, more than may search and wait. A client that comes then is still
// answered, in the place of a client that lets the server wait (crowd.h). For the time that this
// takes there are a few more threads.
inline constexpr int most_connections = 64;
inline constexpr int more_threads = 8;
// The most searches at once. Each search uses all cores, and as many run at once as there are
// cores, up to this number.
inline constexpr int most_running = 8;
// The longest time of one search, once it has begun.
inline constexpr std::chrono::seconds to_search{600};
// The most bytes that a search may print.
inline constexpr std::size_t most_answer_bytes = 256'000'000;
// Number of searches that may wait for each one that may run.
inline constexpr int waiting_per_running = 4;

}  // namespace meshwright
