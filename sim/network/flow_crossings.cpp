// Which flows of a FlowNetwork's link are held back where: lists that both links of a pair know.
#include <algorithm>

#include "sim/network/flow_network.h"

namespace meshwright {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

// The hop's flow becomes one of those of its link that `bottleneck` holds back.
void FlowNetwork::attach(int hop_id, int bottleneck) {
  Hop& own = hop(hop_id);
  std::vector<Beside>& beside = link(own.link).beside;
  std::size_t place = 0;
  while (place < beside.size() && beside[place].bottleneck != bottleneck) ++place;
  if (place == beside.size()) add_crossing(own.link, bottleneck);
  beside[place].copies += flow(own.flow).copies;
  own.crossing = beside[place].crossing;
  Crossing& shared = crossing(own.crossing);
  if (shared.crosser_place >= 0)
    link(bottleneck).crossers[at(shared.crosser_place)].copies = beside[place].copies;
  own.previous = -1;
  own.next = shared.first_hop;
  if (own.next >= 0) hop(own.next).previous = hop_id;
  shared.first_hop = hop_id;
}

void FlowNetwork::detach(int hop_id) {
  Hop& own = hop(hop_id);
  Crossing& shared = crossing(own.crossing);
  double& copies = link(own.link).beside[at(shared.place)].copies;
  copies -= flow(own.flow).copies;
  if (shared.crosser_place >= 0)
    link(shared.bottleneck).crossers[at(shared.crosser_place)].copies = copies;
  if (own.next >= 0) hop(own.next).previous = own.previous;
  if (own.previous >= 0)
    hop(own.previous).next = own.next;
  else
    shared.first_hop = own.next;
  if (shared.first_hop < 0) remove_crossing(own.crossing);
  own.crossing = -1;
}

void FlowNetwork::watch(int id, bool is_watched) {
  link(id).watched = is_watched;
  for (const Beside& each : link(id).beside)
    if (is_watched)
      add_crosser(each);
    else
      remove_crosser(each.crossing);
}

void FlowNetwork::add_crossing(int crossed, int bottleneck) {
  int id = static_cast<int>(crossings_.size());
  if (free_crossings_.empty()) {
    crossings_.emplace_back();
  } else {
    id = free_crossings_.back();
    free_crossings_.pop_back();
  }
  Link& own = link(crossed);
  crossing(id) = {crossed, bottleneck, -1, static_cast<int>(own.beside.size()), -1};
  own.beside.push_back({0, bottleneck, id});
  if (own.watched) {
    add_crosser(own.beside.back());
  } else {
    double& above = link(bottleneck).unwatched_above;
    above = std::min(above, own.capacity / own.copies);
  }
}

void FlowNetwork::remove_crossing(int id) {
  if (crossing(id).crosser_place >= 0) remove_crosser(id);
  std::vector<Beside>& beside = link(crossing(id).link).beside;
  const int place = crossing(id).place;
  beside[at(place)] = beside.back();
  crossing(beside[at(place)].crossing).place = place;
  beside.pop_back();
  free_crossings_.push_back(id);
}

void FlowNetwork::add_crosser(const Beside& beside) {
  std::vector<Crosser>& crossers = link(beside.bottleneck).crossers;
  Crossing& own = crossing(beside.crossing);
  own.crosser_place = static_cast<int>(crossers.size());
  crossers.push_back({beside.copies, own.link, beside.crossing});
}

void FlowNetwork::remove_crosser(int id) {
  Crossing& own = crossing(id);
  std::vector<Crosser>& crossers = link(own.bottleneck).crossers;
  crossers[at(own.crosser_place)] = crossers.back();
  crossing(crossers.back().crossing).crosser_place = own.crosser_place;
  crossers.pop_back();
  own.crosser_place = -1;
}

}  // namespace meshwright
