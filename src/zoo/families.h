// The models of each file, in the order in which they are listed.
#pragma once

#include "zoo/zoo.h"

namespace emend {

std::vector<ZooEntry> resnet_models();
std::vector<ZooEntry> vgg_models();
std::vector<ZooEntry> squeezenet_models();
std::vector<ZooEntry> inception_models();
std::vector<ZooEntry> mobilenet_models();
std::vector<ZooEntry> nasnet_models();
std::vector<ZooEntry> nasrnn_models();
std::vector<ZooEntry> bert_models();
std::vector<ZooEntry> vit_models();
std::vector<ZooEntry> llama_models();
std::vector<ZooEntry> tour_models();

}  // namespace emend
