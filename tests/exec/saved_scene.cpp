#include "tests/exec/saved_scene.h"

#include <filesystem>

#include "exec/checkpoint/folder.h"
#include "tests/catch.h"

namespace meshwright::tests {

namespace {

namespace fs = std::filesystem;

// Returns a model with one layer, so that a save is a hundred calls instead of four hundred.
Model scene_model() {
  Model model = small_model("gpt");
  model.layers = 1;
  return model;
}

}  // namespace

Contents contents_of(const std::string& folder) {
  Contents contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    if (entry.is_directory())
      contents[name + "/"];
    else
      contents[name] = content_of(entry.path());
  }
  return contents;
}

SavedScene::SavedScene()
    : run(saving_plan(scene_model()), scene_model()),
      reader_(saving_plan(scene_model()), scene_model()) {
  for (int step = 1; step <= 3; ++step) {
    run.step(step);
    run.save(good_.path(), step);
    hashes_[step] = run.hash();
    contents_[step] = contents_of(step_folder(good_.path(), step));
  }
  hashes_[4] = hashes_[3];  // what check_next_save() saves
}

void SavedScene::begin(const std::string& folder) const {
  for (const int step : {1, 2})
    fs::copy(step_folder(good_.path(), step), step_folder(folder, step));
}

bool SavedScene::holds(const std::string& folder, std::int64_t step) const {
  const std::string place = step_folder(folder, step);
  return fs::is_directory(place) && contents_of(place) == contents_.at(step);
}

std::int64_t SavedScene::newest(const std::string& folder, bool may_be_damaged) {
  reader_.said.clear();
  const std::optional<Manifest> found = reader_.resume_from(folder);
  CHECK((may_be_damaged || reader_.said.empty()));
  if (!found) return -1;
  CHECK(reader_.hash() == hashes_.at(found->step));
  return found->step;
}

void SavedScene::check_next_save(const std::string& folder) {
  run.save(folder, 4, 2);
  CHECK(newest(folder) == 4);
}

}  // namespace meshwright::tests
