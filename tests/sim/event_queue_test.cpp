#include "sim/engine/event_queue.h"

#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("events of one instant fire in the order they were scheduled", "[sim][engine]") {
  EventQueue queue;
  std::string fired;
  queue.after(5, 'b');
  queue.after(5, 'c');
  queue.after(1, 'a');
  while (!queue.empty()) {
    const Event event = queue.pop();
    fired += static_cast<char>(event.kind);
    if (event.kind == 'b') queue.after(0, 'd');  // now, but after what was scheduled before
  }
  CHECK(fired == "abcd");
  CHECK(queue.now() == 5);
}

TEST_CASE("time never runs backwards over many events", "[sim][engine]") {
  EventQueue queue;
  std::uint32_t state = 7;
  for (int i = 0; i < 1000; ++i) {
    state = state * 1664525u + 1013904223u;
    queue.at(static_cast<SimTime>(state >> 20), 0, i);
  }
  SimTime last = 0;
  int last_scheduled = -1, fired = 0;
  while (!queue.empty()) {
    const Event event = queue.pop();
    CHECK(event.time >= last);
    if (event.time == last) CHECK(event.a > last_scheduled);
    last = event.time;
    last_scheduled = event.a;
    ++fired;
  }
  CHECK(fired == 1000);
}
