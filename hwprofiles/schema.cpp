#include "hwprofiles/schema.h"

#include "hwprofiles/blocks.h"
#include "models/core/json.h"

namespace meshwright::hwprofiles {

namespace {

json number_within(Bound bound, std::string_view key) {
  const NumberRange limits = limits_of(bound, key);
  json type = {{"type", "number"}, {"minimum", limits.low}, {"maximum", limits.high}};
  if (bound == Bound::share) type["maximum"] = 1;
  if (bound == Bound::below_one) {
    type.erase("maximum");
    type["exclusiveMaximum"] = 1;
  }
  return type;
}

json list_of(json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

json count_schema(int least, int most = most_of_a_count) {
  return {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
}

json list_of_exactly(std::size_t count, json items) {
  json list = list_of(std::move(items));
  list["minItems"] = count;
  list["maxItems"] = count;
  return list;
}

json curve_schema() {
  json curve = list_of(list_of_exactly(2, {{"type", "number"}}));
  curve["minItems"] = 1;
  curve["description"] = "pairs [size, share of the peak], sizes growing";
  return curve;
}

struct FieldSchema {
  const BlockField& row;

  json operator()(const double*) const { return number_within(row.bound, row.key); }
  json operator()(const std::optional<double>*) const { return number_within(row.bound, row.key); }
  json operator()(const int*) const {
    return count_schema(row.bound == Bound::at_least_one ? 1 : 0);
  }
  json operator()(const bool*) const { return {{"type", "boolean"}}; }
  json operator()(const std::string*) const { return {{"type", "string"}}; }
  json operator()(const EfficiencyCurve*) const { return curve_schema(); }
  json operator()(const std::vector<double*>& places) const {
    return list_of_exactly(places.size(), number_within(row.bound, row.key));
  }
};

json object_schema(json properties) {
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

json fields_of(const BlockFields& rows) {
  json properties = json::object();
  for (const BlockField& row : rows)
    properties[std::string(row.key)] = std::visit(FieldSchema{row}, row.place);
  return properties;
}

// Returns the schema of a block with the fields of `rows`. `also` holds the schemas of its other
// fields.
json block_schema(const BlockFields& rows, const json& also = json::object()) {
  json properties = fields_of(rows);
  properties.update(also);
  properties["source"] = {{"type", "string"}, {"description", "where the numbers are from"}};
  return object_schema(std::move(properties));
}

json word_schema(std::initializer_list<const char*> known) { return {{"enum", known}}; }

json gpu_schema(Gpu& gpu) {
  json peaks = json::object();
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16,
                                    Precision::bf16, Precision::fp8, Precision::nvfp4})
    peaks[std::string(peak_name(precision))] = number_within(Bound::rate, "");
  return block_schema(gpu_fields(gpu), {{"kind", word_schema({"gpu", "cpu"})},
                                        {"peak_flop_per_s", object_schema(peaks)}});
}

json efficiency_schema(Gpu& gpu) {
  BlockFields rows = efficiency_fields(gpu);
  for (BlockField& row : constant_fields(gpu.kernels)) rows.push_back(std::move(row));
  const json scaling = object_schema({{"threads", count_schema(2)},
                                      {"gemm", curve_schema()},
                                      {"memory_bound", curve_schema()},
                                      {"attention", curve_schema()}});
  return block_schema(rows, {{"thread_scaling", list_of(scaling)}});
}

json pcie_schema(Pcie& pcie) {
  const json members = list_of({{"type", "integer"}});
  const json one =
      object_schema({{"gpus", members},
                     {"nics", members},
                     {"numa", {{"type", "integer"}, {"minimum", 0}, {"maximum", 63}}}});
  return block_schema(pcie_fields(pcie), {{"switches", list_of(one)}});
}

json residuals_schema() {
  Residuals::Interval interval;
  const json one = object_schema(fields_of(interval_fields(interval)));
  return block_schema({}, {{"one_host", one}, {"many_hosts", one}});
}

// Returns the schema of the prices in profiles of version 0.1. Later versions keep prices in a
// price list.
json prices_schema() {
  const json usd = {{"type", "number"}, {"exclusiveMinimum", 0}};
  json schema = block_schema({}, {{"on_demand_usd_per_hour", usd},
                                  {"spot_usd_per_hour", usd},
                                  {"as_of", {{"type", "string"}}}});
  schema["type"] = {"object", "null"};
  return schema;
}

}  // namespace

json profile_schema() {
  Machine machine;
  SharedMemory memory;
  FrameworkMemory framework;
  const json texts = list_of({{"type", "string"}});
  const json links = list_of(list_of({{"type", "integer"}, {"minimum", 0}, {"maximum", 64}}));
  json parts = texts;
  parts["description"] =
      "files of hwprofiles/ without .json, whose fields count where these do not";
  json properties = {{"name", {{"type", "string"}}},
                     {"aliases", texts},
                     {"parts", parts},
                     {"gpus", count_schema(1, most_gpus)},
                     {"calibration", {{"enum", calibration_names()}}},
                     {"concurrent_streams", {{"type", "boolean"}}},
                     {"gpu", gpu_schema(machine.gpu)},
                     {"efficiency", efficiency_schema(machine.gpu)},
                     {"nvlink", block_schema(nvlink_fields(machine.nvlink),
                                             {{"kind", word_schema({"none", "matrix", "nvswitch"})},
                                              {"links_between", links}})},
                     {"network", block_schema(network_fields(machine.network))},
                     {"pcie", pcie_schema(machine.pcie)},
                     {"shared_memory", block_schema(shared_memory_fields(memory))},
                     {"collectives", block_schema(collectives_fields(machine))},
                     {"host", block_schema(host_fields(machine.host))},
                     {"overheads", block_schema(overheads_fields(machine.overheads))},
                     {"framework", block_schema(framework_fields(framework))},
                     {"residuals", residuals_schema()},
                     {"prices", prices_schema()}};
  json schema = object_schema(std::move(properties));
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "A machine of meshwright";
  schema["required"] = {"name"};
  return schema;
}

}  // namespace meshwright::hwprofiles
