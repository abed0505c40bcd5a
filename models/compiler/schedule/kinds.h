// Lists all schedules. Each schedule is a file with the order of a stage's tasks, and a
// ScheduleInfo with what the rest of the program must know about it.
#pragma once

#include <cstdint>

namespace meshwright::compiler {

enum class ScheduleKind : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved,
  zero_bubble,
  zero_bubble_v,
  interleaved_zero_bubble,
  dualpipe_v
};

struct ScheduleInfo;
using Schedule = const ScheduleInfo&();
Schedule gpipe_schedule, one_f_one_b_schedule, interleaved_schedule, zero_bubble_schedule,
    zero_bubble_v_schedule, interleaved_zero_bubble_schedule, dualpipe_v_schedule;
// All schedules, in the order of ScheduleKind.
inline constexpr Schedule* all_schedules[] = {
    gpipe_schedule,       one_f_one_b_schedule,   interleaved_schedule,
    zero_bubble_schedule, zero_bubble_v_schedule, interleaved_zero_bubble_schedule,
    dualpipe_v_schedule};

}  // namespace meshwright::compiler
