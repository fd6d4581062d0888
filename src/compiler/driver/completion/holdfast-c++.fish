# Completion of holdfast-c++ for fish.
source (status dirname)/holdfast-cc.fish
