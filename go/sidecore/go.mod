module sidecore

go 1.19
