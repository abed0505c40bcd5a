// Tests that messages and collectives of several recorded ranks find each other, and that none
// begins before all of its ranks are ready.
#include "models/core/json.h"
#include "sim/rehearsal/meetings.h"
#include "sim/rehearsal/replay_recording.h"
#include "tests/catch.h"
#include "tests/message_of.h"

using namespace meshwright::tests;

namespace {

double us(SimTime time) { return to_seconds(time).value * 1e6; }

// One of two ranks, with one stream and a host that takes no time. Messages and collectives last 10
// us.
struct Rank {
  PricedRecording played;
  Recording recording;

  explicit Rank(int rank) {
    recording.ranks = recording.per_host = 2;
    recording.rank = rank;
    recording.groups = {{0, 1}};
  }
  Rank& computes(double lasts_us) {
    recording.events.emplace_back();
    played.events.push_back({to_sim_time({lasts_us * 1e-6}), RecordedWork::products});
    return *this;
  }
  Rank& exchanges(RecordedCollective kind, int together = 0, std::int64_t bytes = 1000) {
    RecordedEvent event;
    event.what = Recorded::collective;
    event.collective = kind;
    event.group = 0;
    event.peer = 1 - recording.rank;
    event.together = together;
    event.bytes = bytes;
    recording.events.push_back(event);
    played.events.push_back({to_sim_time({10e-6}), RecordedWork::communication});
    return *this;
  }
  Rank& sends(int together = 0) { return exchanges(RecordedCollective::send, together); }
  Rank& receives(int together = 0) { return exchanges(RecordedCollective::receive, together); }
};

ReplayedRanks replayed(Rank& first, Rank& second) {
  first.played.recording = &first.recording;
  second.played.recording = &second.recording;
  return replay_recordings({first.played, second.played}, 0, {1, 0});
}

Recording recording_of(json value) { return read_recording({std::move(value), "step.json"}); }

json file() {
  const std::string path = MESHWRIGHT_SOURCE_DIR "/tests/tools/recording.json";
  return parse_json(read_file(path), path);
}

std::string refusal(const json& other) {
  json value = file();
  value["others"] = json::array({other});
  return message_of([&] { recording_of(value); });
}

json of_rank(int rank) {
  json value = file();
  value["rank"] = rank;
  value["groups"] = {{0, 1, 2, 3, 4, 5, 6, 7}, {rank, (rank + 4) % 8}};
  return value;
}

}  // namespace

TEST_CASE("two stages of a pipeline wait for each other's messages", "[rehearsal]") {
  Rank first(0), second(1);
  first.computes(100).sends().computes(100).sends();
  first.receives().computes(200).receives().computes(200);
  second.receives().computes(100).receives().computes(100);
  second.computes(200).sends().computes(200).sends();
  const ReplayedRanks all = replayed(first, second);
  CHECK(all.meet);
  // The first stage computes until 100, its message ends at 110, it computes until 210, and its
  // second message ends at 220. The second stage computes from 110 to 210 and from 220 to 320, runs
  // a backward until 520, its message ends at 530, a backward until 730, and a message until 740.
  // The backwards of the first stage run from 530 to 730 and from 740 to 940.
  for (const ReplayedStep& step : all.steps) {
    CHECK(us(step.step_time) == Approx(940));
    CHECK(us(step.computing) == Approx(600));
    CHECK(us(step.exposed_communication) == Approx(40));
    CHECK(us(step.waiting) == Approx(300));
    CHECK(step.idle == 0);
    CHECK(us(step.busy[static_cast<std::size_t>(RecordedWork::communication)]) == Approx(40));
  }
}

TEST_CASE("a collective begins when the last of its recorded ranks is ready", "[rehearsal]") {
  Rank first(0), second(1);
  first.computes(100).exchanges(RecordedCollective::all_reduce);
  second.computes(30).exchanges(RecordedCollective::all_reduce);
  const ReplayedRanks all = replayed(first, second);
  CHECK(all.meet);
  CHECK(us(all.steps[0].step_time) == Approx(110));
  CHECK(us(all.steps[1].step_time) == Approx(110));
  CHECK(all.steps[0].waiting == 0);
  CHECK(us(all.steps[1].waiting) == Approx(70));
}

TEST_CASE("messages that NCCL was given together run at once", "[rehearsal]") {
  Rank first(0), second(1);
  first.computes(50).sends(7).receives(7);
  second.computes(80).sends(9).receives(9);
  const ReplayedRanks together = replayed(first, second);
  CHECK(together.meet);
  CHECK(us(together.steps[0].step_time) == Approx(90));
  CHECK(us(together.steps[0].waiting) == Approx(30));

  // On one stream, each send would wait for a receive that comes after the other rank's send.
  Rank third(0), fourth(1);
  third.computes(50).sends().receives();
  fourth.computes(80).sends().receives();
  const ReplayedRanks apart = replayed(third, fourth);
  CHECK_FALSE(apart.meet);
  CHECK(us(apart.steps[0].step_time) == Approx(70));
  CHECK(us(apart.steps[1].step_time) == Approx(100));
}

TEST_CASE("messages that differ in number or size are not waited for", "[rehearsal]") {
  const auto meet = [](Rank first, Rank second) {
    return Meetings({&first.recording, &second.recording}).complete();
  };
  CHECK(meet(Rank(0).sends(), Rank(1).receives()));
  CHECK_FALSE(meet(Rank(0).sends().sends(), Rank(1).receives()));
  CHECK_FALSE(meet(Rank(0).sends(), Rank(1)));
  CHECK_FALSE(meet(Rank(0).exchanges(RecordedCollective::send, 0, 8), Rank(1).receives()));
  CHECK_FALSE(meet(Rank(0).exchanges(RecordedCollective::all_reduce),
                   Rank(1).exchanges(RecordedCollective::broadcast)));
  // Rank 2 is not recorded, so it counts as doing the same as one of the recorded ranks.
  Rank of_three(0);
  of_three.recording.groups = {{0, 2}};
  CHECK(meet(of_three.sends(), Rank(1)));
  Rank first(0), second(1);
  first.sends().computes(5).sends();
  second.receives();
  const ReplayedRanks all = replayed(first, second);
  CHECK_FALSE(all.meet);
  CHECK(us(all.steps[0].step_time) == Approx(25));
}

TEST_CASE("a recording holds other ranks of the same run, each once", "[rehearsal]") {
  json value = file();
  value["others"] = {of_rank(5), of_rank(2)};
  const Recording recording = recording_of(value);
  REQUIRE(recording.others.size() == 2);
  CHECK(recording.others[1].rank == 2);
  CHECK(refusal(of_rank(1)) == "step.json: /others/0: rank 1 is there twice");
  json smaller = of_rank(2);
  smaller["ranks"] = 9;
  smaller["per_host"] = 9;
  CHECK(refusal(smaller) == "step.json: /others/0: is of a run with another number of ranks");
  json nested = of_rank(2);
  nested["others"] = {of_rank(3)};
  CHECK(refusal(nested).starts_with("step.json: /others/0/others: has others of its own"));
  json damaged = of_rank(2);
  damaged.erase("streams");
  CHECK(refusal(damaged) == "step.json: /others/0/streams: missing; it is required (an integer)");
}
