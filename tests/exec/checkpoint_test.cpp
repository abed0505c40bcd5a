// Tests that runs which save continue to the same bits, from the newest valid checkpoint.
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "exec/checkpoint/resume.h"
#include "exec/checkpoint/saver.h"
#include "exec/log/event_file.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/exec/saving_run.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
namespace fs = std::filesystem;

namespace {

using Run = SavingRun;

Run saving_run() { return Run(saving_plan(small_model("gpt"))); }

// Trains steps 1 to `last` and saves each of them. Returns the losses.
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

}  // namespace

TEST_CASE("an fp16 run continues to the bit, its loss scale and its skipped steps with it",
          "[exec][checkpoint]") {
  const TestFolder folder;
  Plan plan = saving_plan(small_model("gpt"));
  plan.training.precision = Precision::fp16;
  plan.training.warmup_steps = 8;
  plan.training.loss_scale = LossScale{true, 0x1p30, 0x1p8, 1, 2, 1};  // moves by 2^8
  Run undisturbed(plan), broken(plan), resumed(plan);
  for (int step = 1; step <= 4; ++step) CHECK(undisturbed.step(step) == broken.step(step));
  const LossScaleState state = broken.runtime.loss_scale();
  CHECK(state.skipped > 0);
  broken.save(folder.path(), 4);
  const std::optional<Manifest> found = resumed.resume_from(folder.path());
  REQUIRE(found);
  CHECK(found->updates == 4 - state.skipped);
  CHECK(resumed.runtime.loss_scale() == state);
  for (int step = 5; step <= 8; ++step) CHECK(resumed.step(step) == undisturbed.step(step));
  CHECK(resumed.hash() == undisturbed.hash());
}

// Checkpoints hold fp32 values, whatever types the states are kept in.
TEST_CASE("a bf16 run continues to the bit, with its masters kept in whichever way",
          "[exec][checkpoint]") {
  const auto with = [](MasterWeights masters, Dtype moments) {
    Plan plan = saving_plan(small_model("gpt"));
    plan.training.precision = Precision::bf16;
    plan.training.master_weights = masters;
    plan.training.moments = moments;
    return plan;
  };
  const auto goes_on = [&](const Plan& before, const Plan& after) {
    const TestFolder folder;
    Run undisturbed(before), broken(before), resumed(after);
    for (int step = 1; step <= 3; ++step) CHECK(undisturbed.step(step) == broken.step(step));
    broken.save(folder.path(), 3);
    REQUIRE(resumed.resume_from(folder.path()));
    CHECK(resumed.hash() == broken.hash());
    for (int step = 4; step <= 6; ++step) CHECK(resumed.step(step) == undisturbed.step(step));
    CHECK(resumed.hash() == undisturbed.hash());
  };
  const Plan whole = with(MasterWeights::fp32, Dtype::f32);
  const Plan parts = with(MasterWeights::remainders, Dtype::f32);
  goes_on(whole, parts);
  goes_on(parts, whole);
  for (const MasterWeights masters :
       {MasterWeights::fp32, MasterWeights::remainders, MasterWeights::none})
    goes_on(with(masters, Dtype::bf16), with(masters, Dtype::bf16));
  Plan at_random = with(MasterWeights::fp32, Dtype::bf16);
  at_random.training.moments_at_random = true;
  goes_on(at_random, at_random);
  goes_on(with(MasterWeights::remainders, Dtype::block8), with(MasterWeights::fp32, Dtype::block8));
}

TEST_CASE("an fp8 run with delayed scales continues to the bit, with what they remember",
          "[exec][checkpoint]") {
  const TestFolder folder;
  Plan plan = saving_plan(small_model("gpt"));
  plan.training.precision = Precision::fp8;
  plan.training.fp8_recipe = Fp8Recipe::delayed;
  Run undisturbed(plan), broken(plan), resumed(plan), forgets(plan);
  for (int step = 1; step <= 3; ++step) CHECK(undisturbed.step(step) == broken.step(step));
  const Histories histories = broken.runtime.histories();
  CHECK(histories.size() == 4 * (4 + 4 + 4));
  for (const auto& [name, largest] : histories) {
    INFO(name);
    REQUIRE(largest.size() == 3);
    for (const double each : largest) CHECK(each > 0);
  }
  broken.save(folder.path(), 3);
  REQUIRE(resumed.resume_from(folder.path()));
  CHECK(resumed.runtime.histories() == histories);
  REQUIRE(forgets.resume_from(folder.path()));
  forgets.runtime.set_histories({});
  for (int step = 4; step <= 6; ++step) CHECK(resumed.step(step) == undisturbed.step(step));
  CHECK(resumed.hash() == undisturbed.hash());
  CHECK(forgets.step(4) != resumed.step(4));
  for (const double impossible : {-1.0, double(NAN), double(INFINITY)})
    CHECK_THROWS_AS(forgets.runtime.set_histories({{histories.begin()->first, {impossible}}}),
                    InputError);
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
  const auto in = [](Precision precision) {
    Plan plan = saving_plan(small_model("gpt"));
    plan.training.precision = precision;
    if (precision == Precision::fp16)
      plan.training.loss_scale = LossScale{true, 0x1p30, 0x1p8, 9, 1, 1};
    return plan;
  };
  Run scaled(in(Precision::fp16));
  for (int step = 1; step <= 4; ++step) scaled.step(step);
  LossScaleState state = scaled.runtime.loss_scale();
  const std::int64_t skipped = state.skipped;
  REQUIRE(skipped > 0);
  state.scale = 1024;  // overflows no gradient of step 5, however the scale moves
  scaled.runtime.set_loss_scale(state);
  scaled.save(folder.path(), 4);
  const StepResult next = scaled.step_at(5, 0);
  REQUIRE_FALSE(next.was_skipped);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Run other(in(precision));
    REQUIRE(other.resume_from(folder.path())->step == 4);
    CHECK(other.runtime.loss_scale() == LossScaleState{1, 0, 1, skipped});
    const StepResult result = other.step_at(5, 0);
    CHECK(result.grad_norm == Approx(next.grad_norm).epsilon(0.05));
    CHECK(result.loss_scale == 1);
    other.save(folder.path(), 5);
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
  // A run must not remove checkpoints of another run.
  write_content(folder.path() + "/other", "");
  fs::create_directory(step_folder(folder.path(), 1));
  Run run(saving_plan(small_model("gpt")));
  Saver saver(folder.path(), 1, run.runtime, *run.all, [](const std::string&) {});
  Manifest about = run.about(6);
  about.run = "another";
  saver.save(about);
  CHECK(saver.finish());
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{6, 5, 4, 1});
  // A run must not replace another run's checkpoint either, so that one is renamed. A damaged one
  // is replaced.
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

// ThreadSanitizer (preset `tsan`) watches this test. The threads of the kernels, and the one that
// saves, run while data are read and steps are logged.
TEST_CASE("a run that saves and logs every step goes as one that does neither", "[checkpoint]") {
  const TestFolder folder;
  const std::string text =
      folder.file("text", "0123456789 012 345 678 901 234 567 890 ,.- 1 2 3 4 5 6 7 8 9 0");
  const Plan plan = saving_plan(small_model("gpt"));
  const Model model = small_model("gpt");
  LoaderOptions options;
  options.files = {text};
  options.shuffle = true;
  options.data_seed = 3;
  options.sequence_length = plan.training.sequence_length;
  options.vocabulary = model.vocabulary;
  Run quiet(plan, model, 3), busy(plan, model, 3);
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
    if (step % 3 == 1) saver.save(busy.about(step));  // the steps between overlap with the writing
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
    const std::string longer = ": has " + std::to_string(whole.size() + 4) + " bytes instead of " +
                               std::to_string(whole.size());
    falls_back(file == "manifest.json" ? path : path + longer);
    fs::remove(path);
    falls_back(path + ": is missing");
    write_content(path, whole);
  }
  Run run = saving_run();
  CHECK(run.resume_from(folder.path())->step == 2);  // the checkpoint is valid again
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
  Run llama(saving_plan(small_model("llama")), small_model("llama"));
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

TEST_CASE("weights alone go with every optimizer, states only with their own", "[checkpoint]") {
  const TestFolder folder;
  Run run = saving_run();
  run.step(1);
  run.runtime.memory().take_snapshot();
  const auto save = [&](const std::string& optimizer) {
    fs::remove_all(step_folder(folder.path(), 1));
    make_folder(part_folder(folder.path(), 1));
    const WrittenShard written = write_shard(part_folder(folder.path(), 1) + "/rank-00000.shard",
                                             pieces_of(run.runtime), {"weights"});
    Manifest manifest = run.about(1);
    manifest.optimizer = optimizer;
    manifest.states = {"weights"};
    manifest.shards = {{"rank-00000.shard", written.bytes, written.header_checksum}};
    CHECK(commit(folder.path(), manifest, 1).empty());
  };
  save("");
  Run weights = saving_run();
  REQUIRE(weights.resume_from(folder.path()));
  CHECK(weights.hash() == run.hash());
  CHECK(weights.step(2) == run.step(2));
  CHECK(weights.hash() != run.hash());  // its moments begin at zero
  save("adamw");
  CHECK(message_of([&] { weights.resume_from(folder.path()); })
            .starts_with(step_folder(folder.path(), 1) +
                         "/manifest.json: /states: has 1 states, adamw has 3; continue it with"));
}

// Replaces a file by a link to itself while it exists. Nobody can open such a link, not even root.
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

TEST_CASE("a checkpoint that cannot be read is an error, not damage that is passed over",
          "[checkpoint]") {
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
  {  // the folder that a save of the same step would replace
    const Unreadable hidden(second + "/manifest.json");
    saver.save(run.about(2));
    CHECK_FALSE(saver.finish());
    REQUIRE(said.size() == 1);
    CHECK(said[0].starts_with("checkpoint of step 2 was NOT saved: " + hidden.path +
                              ": cannot be opened: "));
  }
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{2, 1});
  {  // a checkpoint that would be removed
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
  // A file is where the folder would be made.
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
    CHECK(message_of([&] { const FolderLock second(folder.path()); }) ==
          folder.path() + ": another run (process " + std::to_string(getpid()) +
              ") writes its checkpoints there; wait for it, or name another folder");
  }
  const FolderLock again(folder.path());
}
