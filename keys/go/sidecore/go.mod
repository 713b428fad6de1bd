module sidecore.example/go/sidecore

go 1.19
