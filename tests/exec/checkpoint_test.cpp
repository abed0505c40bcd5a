// The files of a checkpoint: what is written is read, and whatever is damaged is found.
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "exec/checkpoint/crc32c.h"
#include "exec/checkpoint/resume.h"
#include "exec/checkpoint/saver.h"
#include "exec/log/event_file.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/exec/small_run.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright;
namespace fs = std::filesystem;

namespace {

Plan saving_plan(const Model& model) {
  Plan plan = small_plan(model, {.micro_batches = 1});
  plan.training.learning_rate = 1e-2;
  plan.snapshot = true;
  return plan;
}

// A run of one process.
struct Run : SmallRun {
  explicit Run(const Plan& plan_, const std::string& family = "gpt", int threads = 1)
      : SmallRun(small_model(family), plan_, threads), all(group_of_all(*own_world)) {}

  double step(int number) { return SmallRun::step(number).loss; }
  std::optional<Manifest> resume_from(const std::string& folder) {
    return resume({folder, "adamw", shapes_of(stages)}, runtime, *all,
                  [&](const std::string& line) { said.push_back(line); });
  }
  Manifest about(int number) const {
    Manifest manifest;
    manifest.run = "test";
    manifest.step = manifest.updates = number;
    manifest.position = number * plan.training.global_batch;
    manifest.optimizer = "adamw";
    return manifest;
  }

  const std::unique_ptr<Communicator> all;
  std::vector<std::string> said;
};

Run saving_run() { return Run(saving_plan(small_model("gpt"))); }

// Steps 1 ... last, each saved; the losses.
std::vector<double> train_and_save(const std::string& folder, int last, int keep) {
  Run run(saving_plan(small_model("gpt")));
  Saver saver(folder, keep, run.runtime, *run.all, [](const std::string& line) { FAIL(line); });
  std::vector<double> losses;
  for (int step = 1; step <= last; ++step) {
    losses.push_back(run.step(step));
    saver.save(run.about(step));
    saver.poll();
  }
  CHECK(saver.finish());
  CHECK(saver.saved_step() == last);
  return losses;
}

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const StepFolder& each : step_folders(folder)) steps.push_back(each.step);
  return steps;
}

}  // namespace

TEST_CASE("an fp16 run continues to the bit, its loss scale and its skipped steps with it",
          "[exec][checkpoint]") {
  const TestFolder folder;
  Plan plan = saving_plan(small_model("gpt"));
  plan.training.precision = Precision::fp16;
  plan.training.warmup_steps = 8;
  plan.training.loss_scale = LossScale{true, 0x1p30, 0x1p8, 1, 2, 1};  // moves by 2^8
  const auto save = [&](Run& run, int step) {
    Saver saver(folder.path(), 1, run.runtime, *run.all,
                [](const std::string& line) { FAIL(line); });
    saver.save(run.about(step));
    CHECK(saver.finish());
  };
  Run undisturbed(plan), broken(plan), resumed(plan);
  for (int step = 1; step <= 4; ++step) CHECK(undisturbed.step(step) == broken.step(step));
  const LossScaleState state = broken.runtime.loss_scale();
  CHECK(state.skipped > 0);
  save(broken, 4);
  const std::optional<Manifest> found = resumed.resume_from(folder.path());
  REQUIRE(found);
  CHECK(found->updates == 4 - state.skipped);
  CHECK(resumed.runtime.loss_scale() == state);
  for (int step = 5; step <= 8; ++step) CHECK(resumed.step(step) == undisturbed.step(step));
  CHECK(resumed.hash() == undisturbed.hash());
}

TEST_CASE("a loss scale that cannot be is refused", "[exec][checkpoint]") {
  const LossScaleState state{1024, 3, 2, 5};
  CHECK(from_numbers(to_numbers(state), {1, 0, 1, 5}) == state);
  CHECK(from_numbers({}, state) == state);
  for (const double scale : {0.0, -1.0, double(NAN), double(INFINITY)})
    CHECK_THROWS_AS(from_numbers({{"loss_scale", scale}}, {}), InputError);
  CHECK_THROWS_AS(from_numbers({{"loss_scale_good_steps", -1}}, {}), InputError);
  CHECK_THROWS_AS(from_numbers({{"loss_scale_hysteresis_left", 0}}, {}), InputError);
}

TEST_CASE(
    "an fp16 checkpoint goes on in another precision, without the loss scale but with the updates",
    "[exec][checkpoint]") {
  const TestFolder folder;
  const auto save = [&](Run& run, int step) {
    Saver saver(folder.path(), 9, run.runtime, *run.all,
                [](const std::string& line) { FAIL(line); });
    saver.save(run.about(step));
    REQUIRE(saver.finish());
  };
  const auto in = [](Precision precision) {
    Plan plan = saving_plan(small_model("gpt"));
    plan.training.precision = precision;
    if (precision == Precision::fp16)
      plan.training.loss_scale = LossScale{true, 0x1p30, 0x1p8, 9, 1, 1};
    return plan;
  };
  Run scaled(in(Precision::fp16));
  for (int step = 1; step <= 4; ++step) scaled.step(step);
  const std::int64_t skipped = scaled.runtime.loss_scale().skipped;
  REQUIRE(skipped > 0);
  REQUIRE(scaled.runtime.loss_scale().scale > 1);
  save(scaled, 4);
  const StepResult next = scaled.step_at(5, 0);
  REQUIRE_FALSE(next.was_skipped);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Run other(in(precision));
    REQUIRE(other.resume_from(folder.path())->step == 4);
    CHECK(other.runtime.loss_scale() == LossScaleState{1, 0, 1, skipped});
    const StepResult result = other.step_at(5, 0);
    CHECK(result.grad_norm == Approx(next.grad_norm).epsilon(0.05));
    CHECK(result.loss_scale == 1);
    save(other, 5);
    Run back(in(Precision::fp16));
    const std::optional<Manifest> found = back.resume_from(folder.path());
    REQUIRE(found);
    CHECK(found->updates == 5 - skipped);
    CHECK(found->numbers.empty());
    CHECK(back.runtime.loss_scale() == LossScaleState{0x1p30, 0, 1, skipped});
    fs::remove_all(step_folder(folder.path(), 5));
  }
  // A static scale is the job's, not the checkpoint's.
  Plan plan = in(Precision::fp16);
  plan.training.loss_scale = LossScale{.dynamic = false, .initial = 64};
  Run fixed(plan);
  REQUIRE(fixed.resume_from(folder.path()));
  CHECK(fixed.runtime.loss_scale().scale == 64);
  CHECK(fixed.step_at(5, 0).loss_scale == 64);
}

TEST_CASE("CRC-32C of known texts", "[checkpoint]") {
  CHECK(crc32c("123456789") == 0xe3069283);            // the check value of the catalogue
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  const std::string text = "the quick brown fox jumps over the lazy dog";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::uint32_t before = crc32c(text.data(), cut);
    CHECK(crc32c(text.data() + cut, text.size() - cut, before) == crc32c(text));
    CHECK(crc32c_by_table(text.data(), cut, 0) == before);
  }
}

TEST_CASE("runs at equal distances are one entry", "[checkpoint]") {
  std::vector<RepeatedRun> runs;
  append_run(runs, 0, 2);
  append_run(runs, 2, 2);  // follows: [0, 4)
  append_run(runs, 10, 4);
  append_run(runs, 20, 4);
  append_run(runs, 30, 3);
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].first == 0);
  CHECK(runs[0].count == 4);
  CHECK(runs[0].distance == 10);
  CHECK(runs[0].times == 3);
  CHECK(runs[1].first == 30);
  CHECK(runs[1].count == 3);
}

TEST_CASE("a run continues from its checkpoint to the same bits", "[checkpoint]") {
  const TestFolder folder;
  train_and_save(folder.path(), 3, 2);
  Run undisturbed = saving_run(), resumed = saving_run();
  const auto found = resumed.resume_from(folder.path());
  REQUIRE(found);
  CHECK(found->step == 3);
  CHECK(found->position == 6);  // 3 steps of 2 sequences
  for (int step = 1; step <= 3; ++step) undisturbed.step(step);
  for (int step = 4; step <= 6; ++step) CHECK(resumed.step(step) == undisturbed.step(step));
  CHECK(resumed.hash() == undisturbed.hash());
  CHECK(resumed.said.empty());
}

TEST_CASE("the newest checkpoints are kept", "[checkpoint]") {
  const TestFolder folder;
  train_and_save(folder.path(), 5, 2);
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{5, 4});
  // Those of another run are not this one's to remove.
  write_content(folder.path() + "/other", "");
  fs::create_directory(step_folder(folder.path(), 1));
  Run run(saving_plan(small_model("gpt")));
  Saver saver(folder.path(), 1, run.runtime, *run.all, [](const std::string&) {});
  Manifest about = run.about(6);
  about.run = "another";
  saver.save(about);
  CHECK(saver.finish());
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{6, 5, 4, 1});
  // Nor to replace: it is put aside. A damaged one is replaced.
  about.step = 5;
  write_content(step_folder(folder.path(), 4) + "/manifest.json", "");
  saver.save(about);
  CHECK(saver.finish());
  about.step = 4;
  saver.save(about);
  CHECK(saver.finish());
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{6, 5, 4, 1});
  CHECK(read_manifest(step_folder(folder.path(), 5)).run == "another");
  CHECK(read_manifest(step_folder(folder.path(), 5) + ".of-test").step == 5);
  CHECK(read_manifest(step_folder(folder.path(), 4)).run == "another");
}

TEST_CASE("a second save waits for the first, and each holds its own step", "[checkpoint]") {
  const TestFolder folder;
  Run run = saving_run();
  Saver saver(folder.path(), 10, run.runtime, *run.all,
              [](const std::string& line) { FAIL(line); });
  std::vector<std::string> hashes;
  for (int step = 1; step <= 4; ++step) {
    run.step(step);
    saver.save(run.about(step));
    hashes.push_back(run.hash());
  }
  REQUIRE(saver.finish());
  for (int step = 4; step >= 1; --step) {
    Run other = saving_run();
    REQUIRE(other.resume_from(folder.path())->step == step);
    CHECK(other.hash() == hashes[static_cast<std::size_t>(step - 1)]);
    fs::remove_all(step_folder(folder.path(), step));
  }
}

// What ThreadSanitizer (preset `tsan`) watches: the threads of the kernels, and the one that saves
// while data are read and steps are logged.
TEST_CASE("a run that saves and logs every step goes as one that does neither", "[checkpoint]") {
  const TestFolder folder;
  const std::string text =
      folder.file("text", "0123456789 012 345 678 901 234 567 890 ,.- 1 2 3 4 5 6 7 8 9 0");
  const Plan plan = saving_plan(small_model("gpt"));
  const LoaderOptions options{{text},
                              TokenFormat::bytes,
                              true,
                              3,
                              0,
                              plan.training.sequence_length,
                              small_model("gpt").vocabulary};
  Run quiet(plan, "gpt", 3), busy(plan, "gpt", 3);
  quiet.loader = Loader(options);
  busy.loader = Loader(options);
  Saver saver(folder.path(), 2, busy.runtime, *busy.all,
              [](const std::string& line) { FAIL(line); });
  EventFile events(folder.path() + "/events");
  for (int step = 1; step <= 12; ++step) {
    const double loss = busy.step(step);
    CHECK(loss == quiet.step(step));
    events.add(step, std::array<Scalar, 1>{{{"loss", loss}}});
    saver.poll();
    if (step % 3 == 1) saver.save(busy.about(step));  // the steps between go beside the writing
  }
  CHECK(saver.finish());
  CHECK(busy.hash() == quiet.hash());
}

TEST_CASE("whatever is damaged is found, and the older checkpoint is used", "[checkpoint]") {
  const TestFolder folder;
  train_and_save(folder.path(), 2, 2);
  const std::string newest = step_folder(folder.path(), 2);
  const std::string older_hash = [&] {
    Run run = saving_run();
    run.step(1);
    return run.hash();
  }();
  const auto falls_back = [&](const std::string& named) {
    Run run = saving_run();
    const auto found = run.resume_from(folder.path());
    REQUIRE(found);
    CHECK(found->step == 1);
    REQUIRE(run.said.size() == 1);
    INFO(run.said[0]);
    CHECK(run.said[0].find(named) == 0);
    CHECK(run.said[0].find("passed over") != std::string::npos);
    return run.hash();
  };
  for (const std::string file : {"rank-00000.shard", "manifest.json"}) {
    const std::string path = newest + "/" + file, whole = content_of(path);
    for (std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16},
                            std::size_t{17}, whole.size() / 2, whole.size() - 1}) {
      write_content(path, whole.substr(0, cut));
      CHECK(falls_back(path) == older_hash);
    }
    for (std::size_t place :
         {std::size_t{0}, std::size_t{9}, std::size_t{30}, whole.size() / 2, whole.size() - 3}) {
      std::string flipped = whole;
      flipped[place] = static_cast<char>(flipped[place] ^ 4);
      write_content(path, flipped);
      falls_back(path);
    }
    write_content(path, whole + "more");
    falls_back(path);
    fs::remove(path);
    falls_back(path);
    write_content(path, whole);
  }
  Run run = saving_run();
  CHECK(run.resume_from(folder.path())->step == 2);  // whole again
}

TEST_CASE("every byte of a small checkpoint matters", "[checkpoint]") {
  const TestFolder folder;
  train_and_save(folder.path(), 1, 1);
  const std::string place = step_folder(folder.path(), 1);
  Checkpoint(place).check_shard(0);
  const std::string shard = place + "/rank-00000.shard", whole = content_of(shard);
  const auto is_good = [&] {
    try {
      const Checkpoint found(place);
      found.check_shard(0);
      return true;
    } catch (const InputError&) {
    } catch (const RunError&) {
    }
    return false;
  };
  int survived = 0;
  for (std::size_t byte = 0; byte < whole.size(); byte += 997) {
    std::string flipped = whole;
    flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << (byte % 8)));
    write_content(shard, flipped);
    survived += is_good();
    write_content(shard, whole.substr(0, byte));
    survived += is_good();
  }
  CHECK(survived == 0);
  write_content(shard, whole);
  CHECK(is_good());
}

TEST_CASE("another model or optimizer is not loaded", "[checkpoint]") {
  const TestFolder folder;
  train_and_save(folder.path(), 1, 1);
  const std::string manifest = step_folder(folder.path(), 1) + "/manifest.json: ";
  Run llama(saving_plan(small_model("llama")), "llama");
  CHECK(message_of([&] { llama.resume_from(folder.path()); }) ==
        manifest +
            "is of another model: transformer.h.0.attn.c_attn.bias is not in the job's; continue "
            "it with its own job, or name another folder");
  Run sgd = saving_run();
  const std::string before = sgd.hash();
  CHECK(message_of([&] {
          resume({folder.path(), "sgd", shapes_of(sgd.stages)}, sgd.runtime, *sgd.all,
                 [](const std::string& line) { FAIL(line); });
        }).starts_with(manifest + "its states are of the optimizer 'adamw', the job's is 'sgd'"));
  CHECK(sgd.hash() == before);
}

// A link to itself, which nobody can open, not even root.
struct Unreadable {
  explicit Unreadable(const std::string& path_) : path(path_) {
    fs::rename(path, path + ".hidden");
    fs::create_symlink(path, path);
  }
  ~Unreadable() {
    fs::remove(path);
    fs::rename(path + ".hidden", path);
  }
  const std::string path;
};

TEST_CASE("what cannot be read is not damage: it is not passed over", "[checkpoint]") {
  const TestFolder folder;
  train_and_save(folder.path(), 2, 2);
  for (const std::string file : {"/manifest.json", "/rank-00000.shard"}) {
    const std::string place = step_folder(folder.path(), 2);
    Run run = saving_run();
    const std::string before = run.hash();
    {
      const Unreadable hidden(place + file);
      try {
        run.resume_from(folder.path());
        FAIL("resumed");
      } catch (const RunError& error) {
        CHECK(error.what() == hidden.path +
                                  ": cannot be opened: Too many levels of symbolic links; make it "
                                  "readable, or move " +
                                  place + " away to go on from an older checkpoint");
      }
      CHECK(run.said.empty());
      CHECK(run.hash() == before);
    }
    CHECK(run.resume_from(folder.path())->step == 2);
  }
  const Unreadable hidden(step_folder(folder.path(), 1));
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{2, 1});
  const std::string loop = folder.file("loop");
  fs::create_symlink(loop, loop);
  Run run = saving_run();
  CHECK_THROWS_AS(run.resume_from(loop), RunError);
}

TEST_CASE("what cannot be read is neither removed nor replaced by a save", "[checkpoint]") {
  const TestFolder folder;
  train_and_save(folder.path(), 2, 2);
  Run run = saving_run();
  std::vector<std::string> said;
  Saver saver(folder.path(), 1, run.runtime, *run.all,
              [&](const std::string& line) { said.push_back(line); });
  const std::string first = step_folder(folder.path(), 1), second = step_folder(folder.path(), 2);
  {  // in the way of a save of its own step
    const Unreadable hidden(second + "/manifest.json");
    saver.save(run.about(2));
    CHECK_FALSE(saver.finish());
    REQUIRE(said.size() == 1);
    CHECK(said[0].starts_with("checkpoint of step 2 was NOT saved: " + hidden.path +
                              ": cannot be opened: "));
  }
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{2, 1});
  {  // older than those that are kept
    const Unreadable hidden(first + "/manifest.json");
    saver.save(run.about(3));
    CHECK(saver.finish());
    REQUIRE(said.size() == 2);
    CHECK(said[1].starts_with("checkpoint of step 3 is saved, but older ones stay: " + hidden.path +
                              ": cannot be opened: "));
    CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{3, 1});
  }
  Checkpoint(first).check_shard(0);
}

TEST_CASE("a run goes on beyond 2^31 steps", "[checkpoint]") {
  const TestFolder folder;
  for (const std::int64_t last : {(std::int64_t{1} << 31) + 5, (std::int64_t{1} << 32) + 2}) {
    Run run = saving_run(), resumed = saving_run(), young = saving_run();
    run.step(1);
    Saver saver(folder.path(), 1, run.runtime, *run.all,
                [](const std::string& line) { FAIL(line); });
    Manifest about = run.about(1);
    about.step = last;
    saver.save(about);
    REQUIRE(saver.finish());
    REQUIRE(resumed.resume_from(folder.path())->step == last);
    const StepResult far = resumed.step_at(last + 1, 0);
    CHECK(far.learning_rate == run.plan.training.learning_rate);
    CHECK(far.loss == run.step_at(last + 1, 0).loss);
    CHECK(std::isfinite(resumed.step_at(last + 2, 0).loss));
    // Adam's correction is long over.
    REQUIRE(young.resume_from(folder.path()));
    young.step_at(3, 0);
    CHECK(young.hash() != run.hash());
    fs::remove_all(step_folder(folder.path(), last));
  }
}

TEST_CASE("nothing to resume from", "[checkpoint]") {
  const TestFolder folder;
  Run run = saving_run();
  CHECK_FALSE(run.resume_from(folder.path()));
  CHECK_FALSE(run.resume_from(folder.path() + "/missing"));
  CHECK(run.said.empty());
}

TEST_CASE("a save that fails is said and the older checkpoint stays", "[checkpoint]") {
  const TestFolder folder;
  Run run = saving_run();
  std::vector<std::string> said;
  Saver saver(folder.path(), 2, run.runtime, *run.all,
              [&](const std::string& line) { said.push_back(line); });
  run.step(1);
  saver.save(run.about(1));
  REQUIRE(saver.finish());
  // Somebody's file lies where the folder would be made.
  write_content(part_folder(folder.path(), 2), "");
  run.step(2);
  saver.save(run.about(2));
  CHECK_FALSE(saver.finish());
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("checkpoint of step 2 was NOT saved: " + part_folder(folder.path(), 2)) == 0);
  CHECK(said[0].find("that of step 1 is complete") != std::string::npos);
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{1});
  fs::remove(part_folder(folder.path(), 2));
  saver.save(run.about(2));
  CHECK(saver.finish());
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{2, 1});
}

TEST_CASE("one run at a time writes into a folder", "[checkpoint]") {
  const TestFolder folder;
  {
    const FolderLock lock(folder.path());
    CHECK(message_of([&] {
            const FolderLock second(folder.path());
          }).find(folder.path() + ": another run (process ") == 0);
  }
  const FolderLock again(folder.path());
}

TEST_CASE("hostile headers are refused with their place", "[checkpoint]") {
  const auto header = [](const std::string& json) {
    const std::uint64_t length = json.size();
    return "MWSHARD1" + std::string(reinterpret_cast<const char*>(&length), 8) + json;
  };
  const auto refused = [&](const std::string& bytes, std::int64_t more = 1000) {
    return message_of(
        [&] { parse_shard_header(bytes, static_cast<std::int64_t>(bytes.size()) + more, "f"); });
  };
  const auto entry = [](const std::string& shape, const std::string& runs,
                        const std::string& offset) {
    return R"({"name": "w", "shape": )" + shape + R"(, "runs": )" + runs + R"(, "offset": )" +
           offset + R"(, "crc32c": ["00000000"]})";
  };
  const auto pieces = [&](const std::string& list, std::int64_t data_bytes) {
    return refused(header(R"({"format": 1, "states": ["weights"], "pieces": [)" + list + "]}"),
                   data_bytes);
  };
  const auto piece = [&](const std::string& shape, const std::string& runs,
                         const std::string& offset = "0", std::int64_t data_bytes = 24) {
    return pieces(entry(shape, runs, offset), data_bytes);
  };
  CHECK(piece("[2, 3]", "[0, 6, 0, 1]") == "");
  CHECK(piece("[2, 3]", "[0, 1, 2, 3]", "0", 12) == "");
  // What pieces claim is what the file holds: they lie one after the other and fill it.
  const std::string three = entry("[2, 3]", "[0, 1, 2, 3]", "0");
  CHECK(pieces(three + "," + entry("[2, 3]", "[1, 1, 2, 3]", "12"), 24) == "");
  for (const std::string offset : {"0", "8", "16"})
    CHECK(pieces(three + "," + entry("[2, 3]", "[1, 1, 2, 3]", offset), 24) ==
          "f: /pieces/1/offset: expected 12, where the piece before ends");
  CHECK(pieces(three, 16) == "f: /pieces: hold 12 bytes, but the file has 16 bytes of data");
  CHECK(pieces("", 4) == "f: /pieces: hold 0 bytes, but the file has 4 bytes of data");
  for (const std::int64_t less : {0, 8, 23})
    CHECK(piece("[2, 3]", "[0, 6, 0, 1]", "0", less) ==
          "f: /pieces/0/runs: 24 bytes from 0 on are not within the " + std::to_string(less) +
              " bytes of data");
  CHECK(refused("") == "f: ends at byte 1000");
  CHECK(refused("MWSHARD2" + std::string(8, '\0')) ==
        "f: is not a file of a checkpoint (its first bytes are others)");
  CHECK(refused("MWSHARD1" + std::string(8, '\xff')).find("does not fit into the file's 1016") !=
        std::string::npos);
  CHECK(refused("MWSHARD1" + std::string(1, '\x7f') + std::string(7, '\0')) ==
        "f: ends within its header");
  CHECK(refused(header("{")).find("f: ") == 0);
  CHECK(refused(header("[]")).find("f: ") == 0);
  CHECK(refused(header(R"({"format": 2})")).find("f: /format: 2 is not known") == 0);
  const std::string within = "f: /pieces/0/runs: run 0 is not within the 6 elements";
  for (const std::string runs :
       {"[0, 7, 0, 1]", "[6, 1, 0, 1]", "[-1, 2, 0, 1]", "[0, 0, 0, 1]", "[0, 1, 1, 0]",
        "[0, 2, 1, 2]", "[0, 1, 2, 4]", "[0, 9223372036854775807, 0, 1]",
        "[9223372036854775807, 1, 0, 1]", "[0, 1, 9223372036854775807, 2]",
        "[0, 1, 1, 9223372036854775807]"})
    CHECK(piece("[2, 3]", runs) == within);
  CHECK(piece("[2, 3]", "[0, 6, 0, 1, 0, 6, 0, 1]") == "f: /pieces/0/runs: more than 6 elements");
  CHECK(piece("[2, 3]", "[0, 6, 0]") == "f: /pieces/0/runs: expected four numbers for each run");
  for (const std::string shape : {"[]", "[0]", "[-2, 3]", "[1, 1, 1, 1, 6]",
                                  "[9223372036854775807, 2]", "[4294967296, 4294967296]"})
    CHECK(piece(shape, "[0, 6, 0, 1]") == "f: /pieces/0/shape: is not the shape of a parameter");
  for (const std::string offset : {"-4", "2", "4", "9223372036854775804"})
    CHECK(piece("[2, 3]", "[0, 6, 0, 1]", offset) ==
          "f: /pieces/0/offset: expected 0, where the piece before ends");
}

TEST_CASE("the counts of a manifest are whole, or refused", "[checkpoint]") {
  Manifest manifest;
  manifest.states = {"weights"};
  const auto refused = [&](std::int64_t step, std::int64_t position, std::int64_t updates,
                           std::int64_t bytes) {
    manifest.step = step, manifest.position = position, manifest.updates = updates;
    manifest.shards = {{"rank-00000.shard", bytes, 0}};
    return message_of([&] {
      const Manifest back = parse_manifest(encode(manifest), "m");
      CHECK(back.step == step);
      CHECK(back.position == position);
      CHECK(back.updates == updates);
      CHECK(back.shards[0].bytes == bytes);
    });
  };
  constexpr std::int64_t most = std::int64_t{1} << 53;
  for (const std::int64_t good :
       {std::int64_t{0}, std::int64_t{1} << 31, (std::int64_t{1} << 32) + 2, most})
    CHECK(refused(good, good, good, good) == "");
  for (const std::int64_t bad : {std::int64_t{-1}, most + 1, INT64_MAX, INT64_MIN}) {
    const std::string what = std::to_string(bad) + " is not a count from 0 to 2^53";
    CHECK(refused(bad, 0, 0, 0) == "m: /step: " + what);
    CHECK(refused(0, bad, 0, 0) == "m: /position: " + what);
    CHECK(refused(0, 0, bad, 0) == "m: /updates: " + what);
    CHECK(refused(0, 0, 0, bad) == "m: /shards/0/bytes: " + what);
  }
  CHECK(refused(3, 0, 4, 0) == "m: /updates: 4 are more than the 3 steps");
  CHECK(refused(4, 0, 3, 0) == "");
  manifest.seed = INT64_MAX;
  CHECK(parse_manifest(encode(manifest), "m").seed == INT64_MAX);
}

TEST_CASE("hostile manifests are refused with their place", "[checkpoint]") {
  Manifest manifest;
  manifest.run = "r";
  manifest.numbers["loss_scale"] = 65536;
  manifest.states = {"weights"};
  manifest.shards = {{"rank-00000.shard", 12, 34}};
  const std::string good = encode(manifest);
  const Manifest back = parse_manifest(good, "m");
  CHECK(back.shards[0].header_checksum == 34);
  CHECK(back.numbers.at("loss_scale") == 65536);
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    CHECK(message_of([&] { parse_manifest(good.substr(0, cut), "m"); }).find("m: ") == 0);
  const auto with_sum = [](std::string json) {
    return json + "crc32c " + hex8(crc32c(json)) + "\n";
  };
  CHECK(message_of([&] { parse_manifest(with_sum("{}\n"), "m"); }).find("m: /format: ") == 0);
  manifest.run = "../r";
  CHECK(message_of([&] { parse_manifest(encode(manifest), "m"); }) ==
        "m: /run: expected lower-case letters and digits");
  manifest.run = "r";
  for (const std::string& name :
       {std::string("../other"), std::string(".hidden"), std::string(), std::string(256, 'a')}) {
    manifest.shards[0].name = name;
    CHECK(message_of([&] { parse_manifest(encode(manifest), "m"); }) ==
          "m: /shards/0/name: is not the name of a file in this folder");
  }
  manifest.shards = {{"one", 12, 34}, {"two", 12, 34}, {"one", 12, 34}};
  CHECK(message_of([&] { parse_manifest(encode(manifest), "m"); }) ==
        "m: /shards/2/name: one is given twice");
}
